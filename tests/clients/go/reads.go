package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

// fleet is the label of the objects to read: boat-0 … boat-6, with a label even or odd.
const fleet = "fleet=reads"

func checkReads(s *session) {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	s.check("seven configmaps are created", func(ctx context.Context) error {
		for i := range 7 {
			labels := map[string]string{"fleet": "reads", "parity": []string{"even", "odd"}[i%2]}
			boat := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("boat-%d", i), Labels: labels}}
			if _, err := configMaps.Create(ctx, boat, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	checkPages(s)
	checkSelectors(s)
	checkWatches(s)
}

func checkPages(s *session) {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	s.check("pages have one resource version and no object twice", func(ctx context.Context) error {
		var names, versions, sizes []string
		options := metav1.ListOptions{LabelSelector: fleet, Limit: 3}
		for {
			page, err := configMaps.List(ctx, options)
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				names = append(names, item.Name)
			}
			versions = append(versions, page.ResourceVersion)
			sizes = append(sizes, fmt.Sprint(len(page.Items)))
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
			// A write between two pages does not change the next page.
			if err := touch(ctx, s, "boat-6"); err != nil {
				return err
			}
		}
		return errors.Join(expect("sizes", strings.Join(sizes, " "), "3 3 1"),
			expect("versions", len(slices.Compact(versions)), 1),
			expect("names", strings.Join(names, " "), "boat-0 boat-1 boat-2 boat-3 boat-4 boat-5 boat-6"))
	})
	s.check("client-go's pager lists in chunks", func(ctx context.Context) error {
		chunks := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return configMaps.List(ctx, options)
		})
		chunks.PageSize = 2
		count := 0
		err := chunks.EachListItem(ctx, metav1.ListOptions{LabelSelector: fleet}, func(runtime.Object) error {
			count++
			return nil
		})
		return errors.Join(err, expect("objects", count, 7))
	})
	s.check("a list at version 0, at an exact version, and at a future version", func(ctx context.Context) error {
		cached, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: fleet, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		if err := touch(ctx, s, "boat-0"); err != nil {
			return err
		}
		exact, err := configMaps.List(ctx, metav1.ListOptions{
			LabelSelector: fleet, ResourceVersion: cached.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		if err != nil {
			return err
		}
		// The client's retries are off, since they take longer than the timeout.
		err = s.clients.CoreV1().RESTClient().Get().Namespace(s.namespace).Resource("configmaps").MaxRetries(0).
			VersionedParams(&metav1.ListOptions{
				ResourceVersion: "999999999999", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			}, scheme.ParameterCodec).Do(ctx).Error()
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			return fmt.Errorf("a future version: %w", err)
		}
		return errors.Join(expect("objects", len(cached.Items), 7),
			expect("exact version", exact.ResourceVersion, cached.ResourceVersion),
			expect("exact object", exact.Items[0].ResourceVersion, cached.Items[0].ResourceVersion))
	})
}

func checkSelectors(s *session) {
	core := s.clients.CoreV1()
	for selector, count := range map[string]int{
		fleet + ",parity=even":              4,
		fleet + ",parity!=even":             3,
		fleet + ",parity in (odd, none)":    3,
		fleet + ",parity notin (odd, even)": 0,
		fleet + ",!color":                   7,
		fleet + ",parity":                   7,
	} {
		s.check("label selector "+selector, func(ctx context.Context) error {
			list, err := core.ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			return errors.Join(err, expect("objects", len(list.Items), count))
		})
	}
	s.check("field selectors", func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: named("selected"), Spec: podSpec()}
		if _, err := core.Pods(s.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		for selector, count := range map[string]int{
			"metadata.name=selected":                       1,
			"metadata.name=selected,status.phase=Pending":  1,
			"metadata.name=selected,status.phase!=Pending": 0,
			"metadata.name=selected,spec.nodeName=":        1,
			"spec.nodeName=nowhere":                        0,
			"metadata.namespace=" + s.namespace + ",spec.restartPolicy=Always,metadata.name=selected": 1,
		} {
			list, err := core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
			if err != nil {
				return fmt.Errorf("%s: %w", selector, err)
			}
			if err := expect(selector, len(list.Items), count); err != nil {
				return err
			}
		}
		_, err := core.Pods(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.hostname=selected"})
		if !apierrors.IsBadRequest(err) {
			return fmt.Errorf("a field that cannot be selected: %w", err)
		}
		return core.Pods(s.namespace).Delete(ctx, "selected", deleteNow())
	})
}

func checkWatches(s *session) {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	s.check("a watch resumes where another ended", func(ctx context.Context) error {
		before, err := configMaps.Get(ctx, "boat-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for range 3 {
			if err := touch(ctx, s, "boat-1"); err != nil {
				return err
			}
		}
		source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fields.OneTermEqualSelector("metadata.name", "boat-1").String()
			return configMaps.Watch(ctx, options)
		}}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, before.ResourceVersion, source)
		if err != nil {
			return err
		}
		defer watcher.Stop()
		last := before.ResourceVersion
		for range 3 {
			event, err := receive(ctx, "a missed event", watcher.ResultChan())
			if err != nil {
				return err
			}
			boat, is := event.Object.(*corev1.ConfigMap)
			if !is || event.Type != watch.Modified || boat.ResourceVersion == last {
				return fmt.Errorf("watched %s %+v", event.Type, event.Object)
			}
			last = boat.ResourceVersion
		}
		return nil
	})
	s.check("a watch with initial events sends a bookmark after them", func(ctx context.Context) error {
		watcher, err := configMaps.Watch(ctx, metav1.ListOptions{
			LabelSelector: fleet, AllowWatchBookmarks: true, SendInitialEvents: new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			return err
		}
		defer watcher.Stop()
		for count := 0; ; count++ {
			event, err := receive(ctx, "an initial event", watcher.ResultChan())
			if err != nil {
				return err
			}
			if event.Type == watch.Bookmark {
				marked := event.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey]
				return errors.Join(expect("initial events", count, 7), expect("mark", marked, "true"))
			}
			if event.Type != watch.Added {
				return fmt.Errorf("watched %s %+v", event.Type, event.Object)
			}
		}
	})
	s.check("an object that no longer matches a selector is deleted for its watchers", func(ctx context.Context) error {
		list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: fleet})
		if err != nil {
			return err
		}
		options := metav1.ListOptions{LabelSelector: fleet, ResourceVersion: list.ResourceVersion}
		watcher, err := configMaps.Watch(ctx, options)
		if err != nil {
			return err
		}
		defer watcher.Stop()
		for _, step := range []struct {
			fleet string
			event watch.EventType
		}{{"other", watch.Deleted}, {"reads", watch.Added}} {
			boat, err := configMaps.Get(ctx, "boat-5", metav1.GetOptions{})
			if err != nil {
				return err
			}
			boat.Labels["fleet"] = step.fleet
			if _, err := configMaps.Update(ctx, boat, metav1.UpdateOptions{}); err != nil {
				return err
			}
			event, err := receive(ctx, "the event", watcher.ResultChan())
			if err := errors.Join(err, expect("event", event.Type, step.event)); err != nil {
				return err
			}
		}
		return nil
	})
	s.check("a watch ends at its timeout", func(ctx context.Context) error {
		watcher, err := configMaps.Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(1)), LabelSelector: "no=body"})
		if err != nil {
			return err
		}
		select {
		case event, open := <-watcher.ResultChan():
			return expect(fmt.Sprintf("open, with %+v", event), open, false)
		case <-ctx.Done():
			return errors.New("the watch did not end")
		}
	})
}
