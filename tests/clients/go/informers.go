package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

func checkInformers(s *session) {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	s.check("shared informers report additions, updates and deletions", func(ctx context.Context) error {
		factory := informers.NewSharedInformerFactoryWithOptions(s.clients, 0, informers.WithNamespace(s.namespace))
		maps := factory.Core().V1().ConfigMaps()
		seen, err := watchWith(maps.Informer())
		if err != nil {
			return err
		}
		// These informers only have to sync; the objects of the last two are large.
		factory.Core().V1().Pods().Informer()
		factory.Core().V1().Nodes().Informer()
		factory.Apps().V1().Deployments().Informer()
		ctx, cancel := context.WithCancel(ctx)
		defer func() { cancel(); factory.Shutdown() }()
		factory.Start(ctx.Done())
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("%s did not sync", kind)
			}
		}
		all, err := maps.Lister().ConfigMaps(s.namespace).List(labels.Everything())
		if err != nil {
			return err
		}
		list, err := configMaps.List(ctx, metav1.ListOptions{})
		if err := errors.Join(err, expect("cached objects", len(all), len(list.Items))); err != nil {
			return err
		}
		if err := createUpdateDelete(ctx, s, "informed", seen); err != nil {
			return err
		}
		_, err = maps.Lister().ConfigMaps(s.namespace).Get("informed")
		return expect("is gone from the cache", apierrors.IsNotFound(err), true)
	})
	s.check("the metadata client reads, lists, patches and watches metadata only", func(ctx context.Context) error {
		client, err := metadata.NewForConfig(s.config)
		if err != nil {
			return err
		}
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		list, err := client.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: fleet})
		if err := errors.Join(err, expect("objects", len(list.Items), 7)); err != nil {
			return err
		}
		one, err := client.Resource(resource).Namespace(s.namespace).Get(ctx, "boat-0", metav1.GetOptions{})
		if err := errors.Join(err, expect("label", one.Labels["fleet"], "reads")); err != nil {
			return err
		}
		patch := []byte(`{"metadata":{"annotations":{"summary":"yes"}}}`)
		one, err = client.Resource(resource).Namespace(s.namespace).Patch(
			ctx, "boat-0", types.MergePatchType, patch, metav1.PatchOptions{})
		if err := errors.Join(err, expect("annotation", one.Annotations["summary"], "yes")); err != nil {
			return err
		}
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, s.namespace, nil)
		informer := factory.ForResource(resource).Informer()
		seen, err := watchWith(informer)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer func() { cancel(); factory.Shutdown() }()
		factory.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return errors.New("the informer did not sync")
		}
		for _, item := range informer.GetStore().List() {
			if _, is := item.(*metav1.PartialObjectMetadata); !is {
				return fmt.Errorf("the cache has a %T", item)
			}
		}
		return createUpdateDelete(ctx, s, "summarized", seen)
	})
}

// createUpdateDelete writes a configmap, and waits until an informer has reported each event.
func createUpdateDelete(ctx context.Context, s *session, name string, seen <-chan string) error {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	steps := []struct {
		event string
		step  func() error
	}{
		{"add " + name, func() error {
			_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: named(name)}, metav1.CreateOptions{})
			return err
		}},
		{"update " + name, func() error { return touch(ctx, s, name) }},
		{"delete " + name, func() error { return configMaps.Delete(ctx, name, metav1.DeleteOptions{}) }},
	}
	for _, it := range steps {
		if err := it.step(); err != nil {
			return err
		}
		if err := waitForEvent(ctx, it.event, seen); err != nil {
			return err
		}
	}
	return nil
}

// watchWith adds handlers to an informer, which send `add NAME`, `update NAME` and `delete NAME`.
func watchWith(informer cache.SharedIndexInformer) (<-chan string, error) {
	events := make(chan string, 1000)
	send := func(event string, object any) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		accessor, err := meta.Accessor(object.(runtime.Object))
		if err != nil {
			events <- err.Error()
			return
		}
		events <- event + " " + accessor.GetName()
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send("add", object) },
		UpdateFunc: func(_, object any) { send("update", object) },
		DeleteFunc: func(object any) { send("delete", object) },
	})
	return events, err
}

// waitForEvent waits for an event of watchWith and skips others.
func waitForEvent(ctx context.Context, event string, events <-chan string) error {
	for {
		got, err := receive(ctx, event, events)
		if err != nil || got == event {
			return err
		}
	}
}
