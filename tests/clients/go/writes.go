package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

func checkWrites(s *session) {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	s.check("two writers that retry on conflict lose no update", func(ctx context.Context) error {
		counter := &corev1.ConfigMap{ObjectMeta: named("counter"), Data: map[string]string{"count": "0"}}
		if _, err := configMaps.Create(ctx, counter, metav1.CreateOptions{}); err != nil {
			return err
		}
		results := make(chan error)
		for range 2 {
			go func() { results <- increment(ctx, s, 10) }()
		}
		if err := errors.Join(<-results, <-results); err != nil {
			return err
		}
		counter, err := configMaps.Get(ctx, "counter", metav1.GetOptions{})
		return errors.Join(err, expect("count", counter.Data["count"], "20"))
	})
	s.check("a dry run stores nothing", func(ctx context.Context) error {
		boat := &corev1.ConfigMap{ObjectMeta: named("dry")}
		created, err := configMaps.Create(ctx, boat, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if _, err := configMaps.Get(ctx, "dry", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the object was stored: %w", err)
		}
		return expect("has a uid", created.UID != "", true)
	})
	s.check("names are generated", func(ctx context.Context) error {
		boat := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "made-up-"}}
		created, err := configMaps.Create(ctx, boat, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return expect("generated suffix", strings.HasPrefix(created.Name, "made-up-") && len(created.Name) == 13, true)
	})
	s.check("an object exists until its finalizers are removed", func(ctx context.Context) error {
		boat := &corev1.ConfigMap{ObjectMeta: named("held")}
		boat.Finalizers = []string{"interop.example/hold"}
		_, err := configMaps.Create(ctx, boat, metav1.CreateOptions{})
		if err := errors.Join(err, configMaps.Delete(ctx, "held", metav1.DeleteOptions{})); err != nil {
			return err
		}
		held, err := configMaps.Get(ctx, "held", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if held.DeletionTimestamp == nil {
			return errors.New("it has no deletion timestamp")
		}
		release := []byte(`{"metadata":{"finalizers":null}}`)
		if _, err = configMaps.Patch(ctx, "held", types.MergePatchType, release, metav1.PatchOptions{}); err != nil {
			return err
		}
		if _, err := configMaps.Get(ctx, "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the object still exists: %w", err)
		}
		return nil
	})
	checkPatches(s)
	checkErrors(s)
	checkRecorder(s)
}

func checkPatches(s *session) {
	s.check("a strategic merge patch merges containers by name", func(ctx context.Context) error {
		deployments := s.clients.AppsV1().Deployments(s.namespace)
		_, err := deployments.Create(ctx, deployment("patched"), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		patch := `{"spec":{"template":{"spec":{"containers":[
			{"name":"main","env":[{"name":"PLAIN","value":"changed"}]},
			{"name":"side","image":"registry.invalid/side:1"}]}}}}`
		patched, err := deployments.Patch(ctx, "patched", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		values := map[string]string{}
		for _, container := range patched.Spec.Template.Spec.Containers {
			values[container.Name] = container.Image
			for _, env := range container.Env {
				values[container.Name+" "+env.Name] = env.Value
			}
		}
		return errors.Join(expect("main", values["main"], "registry.invalid/image:1"),
			expect("PLAIN", values["main PLAIN"], "changed"),
			expect("side", values["side"], "registry.invalid/side:1"),
			expect("generation", patched.Generation, 2),
			deployments.Delete(ctx, "patched", deleteNow()))
	})
	s.check("a JSON patch whose test fails is not applied", func(ctx context.Context) error {
		patch := `[{"op":"test","path":"/data/count","value":"-1"},{"op":"remove","path":"/data/count"}]`
		_, err := s.clients.CoreV1().ConfigMaps(s.namespace).Patch(
			ctx, "counter", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("unexpected result: %w", err)
		}
		return nil
	})
}

func checkErrors(s *session) {
	s.check("an invalid object is refused with all errors", func(ctx context.Context) error {
		wrong := deployment("wrong")
		wrong.Spec.Selector = selecting("other")
		wrong.Spec.Template.Spec.Containers[0].Image = ""
		_, err := s.clients.AppsV1().Deployments(s.namespace).Create(ctx, wrong, metav1.CreateOptions{})
		var status apierrors.APIStatus
		if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
			return fmt.Errorf("unexpected result: %w", err)
		}
		var fields []string
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, cause.Field)
		}
		want := "spec.template.spec.containers[0].image"
		return expect("fields "+strings.Join(fields, " "), strings.Contains(strings.Join(fields, " "), want), true)
	})
	s.check("an object in a missing namespace is refused", func(ctx context.Context) error {
		boat := &corev1.ConfigMap{ObjectMeta: named("lost")}
		_, err := s.clients.CoreV1().ConfigMaps("nowhere").Create(ctx, boat, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("unexpected result: %w", err)
		}
		return nil
	})
	s.check("a user without rights is forbidden", func(ctx context.Context) error {
		config := rest.CopyConfig(s.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
		clients, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		_, err = clients.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("unexpected result: %w", err)
		}
		return nil
	})
}

func checkRecorder(s *session) {
	s.check("the recorder counts repeated events", func(ctx context.Context) error {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{
			Interface: s.clients.CoreV1().Events(s.namespace),
		})
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "interop"})
		counter, err := s.clients.CoreV1().ConfigMaps(s.namespace).Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for range 3 {
			recorder.Event(counter, corev1.EventTypeNormal, "Counted", "once more")
		}
		selector := "involvedObject.name=counter,reason=Counted"
		return until(ctx, "the event was counted thrice", func(ctx context.Context) (bool, error) {
			list, err := s.clients.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
			return err == nil && len(list.Items) == 1 && list.Items[0].Count == 3, err
		})
	})
}

// increment increments the counter a number of times.
func increment(ctx context.Context, s *session, times int) error {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	// More retries than client-go's default, since the other writer is equally fast.
	often := wait.Backoff{Steps: 100, Duration: 5 * time.Millisecond, Factor: 1, Jitter: 1}
	for range times {
		err := retry.RetryOnConflict(often, func() error {
			counter, err := configMaps.Get(ctx, "counter", metav1.GetOptions{})
			if err != nil {
				return err
			}
			count, err := strconv.Atoi(counter.Data["count"])
			if err != nil {
				return err
			}
			counter.Data["count"] = strconv.Itoa(count + 1)
			_, err = configMaps.Update(ctx, counter, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// touch writes a new value to a configmap.
func touch(ctx context.Context, s *session, name string) error {
	configMaps := s.clients.CoreV1().ConfigMaps(s.namespace)
	patch := fmt.Sprintf(`{"data":{"touched":"%d"}}`, time.Now().UnixNano())
	_, err := configMaps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}
