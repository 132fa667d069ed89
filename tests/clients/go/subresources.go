package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"
)

func checkSubresources(s *session) {
	checkScale(s)
	checkStatus(s)
	checkPodSubresources(s)
	s.check("a namespace is deleted when its finalizer is removed", func(ctx context.Context) error {
		namespaces := s.clients.CoreV1().Namespaces()
		created, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: named("brief-" + s.name)}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if err := namespaces.Delete(ctx, created.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		terminating, err := namespaces.Get(ctx, created.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // the namespace controller was quicker
		}
		if err := errors.Join(err, expect("phase", terminating.Status.Phase, corev1.NamespaceTerminating)); err != nil {
			return err
		}
		terminating.Spec.Finalizers = nil
		_, err = namespaces.Finalize(ctx, terminating, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		return until(ctx, "the namespace is deleted", func(ctx context.Context) (bool, error) {
			_, err := namespaces.Get(ctx, created.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	})
	s.check("a signing request is approved", func(ctx context.Context) error {
		requests := s.clients.CertificatesV1().CertificateSigningRequests()
		request, err := requests.Create(ctx, signingRequest(s), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Interop",
		}}
		approved, err := requests.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		return errors.Join(expect("conditions", len(approved.Status.Conditions), 1),
			requests.Delete(ctx, request.Name, metav1.DeleteOptions{}))
	})
}

func checkScale(s *session) {
	deployments := s.clients.AppsV1().Deployments(s.namespace)
	s.check("a deployment is scaled, and its scale is read", func(ctx context.Context) error {
		if _, err := deployments.Create(ctx, deployment("scaled"), metav1.CreateOptions{}); err != nil {
			return err
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
			if err := errors.Join(err, expect("selector", current.Status.Selector, "run=scaled")); err != nil {
				return err
			}
			current.Spec.Replicas = 2
			_, err = deployments.UpdateScale(ctx, "scaled", current, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		read, err := deployments.Get(ctx, "scaled", metav1.GetOptions{})
		return errors.Join(err, expect("replicas", *read.Spec.Replicas, 2))
	})
	s.check("the polymorphic scale client finds resources by discovery", func(ctx context.Context) error {
		discovery := memory.NewMemCacheClient(s.clients.Discovery())
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(discovery)
		scales, err := scale.NewForConfig(
			s.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(discovery))
		if err != nil {
			return err
		}
		resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		var patched *autoscalingv1.Scale
		patched, err = scales.Scales(s.namespace).Patch(ctx, resource, "scaled", types.MergePatchType,
			[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return errors.Join(expect("replicas", patched.Spec.Replicas, 0), deployments.Delete(ctx, "scaled", deleteNow()))
	})
}

func checkStatus(s *session) {
	s.check("status and spec are updated separately", func(ctx context.Context) error {
		sets := s.clients.AppsV1().DaemonSets(s.namespace)
		created, err := sets.Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: named("apart"),
			Spec:       appsv1.DaemonSetSpec{Selector: selecting("apart"), Template: podTemplate("apart")},
			Status:     appsv1.DaemonSetStatus{NumberReady: 9},
		}, metav1.CreateOptions{})
		if err := errors.Join(err, expect("ready after the create", created.Status.NumberReady, 0)); err != nil {
			return err
		}
		var written *appsv1.DaemonSet
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			read, err := sets.Get(ctx, "apart", metav1.GetOptions{})
			if err != nil {
				return err
			}
			read.Status.NumberReady = 3
			read.Spec.MinReadySeconds = 77
			written, err = sets.UpdateStatus(ctx, read, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		patch := []byte(`{"status":{"numberMisscheduled":4}}`)
		patched, err := sets.Patch(ctx, "apart", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
		return errors.Join(expect("ready", written.Status.NumberReady, 3),
			expect("spec", written.Spec.MinReadySeconds, 0),
			expect("generation", written.Generation, 1),
			expect("misscheduled", patched.Status.NumberMisscheduled, 4),
			sets.Delete(ctx, "apart", deleteNow()))
	})
	s.check("a node's status is patched by condition", func(ctx context.Context) error {
		nodes, name := s.clients.CoreV1().Nodes(), "a-patched-node-"+s.name
		if _, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: named(name)}, metav1.CreateOptions{}); err != nil {
			return err
		}
		for _, condition := range []string{"Ready", "DiskPressure", "Ready"} {
			patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, condition)
			if _, err := nodes.PatchStatus(ctx, name, []byte(patch)); err != nil {
				return err
			}
		}
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		return errors.Join(err, expect("conditions", len(node.Status.Conditions), 2),
			nodes.Delete(ctx, name, metav1.DeleteOptions{}))
	})
}

func checkPodSubresources(s *session) {
	pods := s.clients.CoreV1().Pods(s.namespace)
	s.check("a pod is bound, runs, gets an ephemeral container and is evicted", func(ctx context.Context) error {
		pod := &corev1.Pod{ObjectMeta: named("bound"), Spec: podSpec()}
		// The plane's scheduler would write to the status at the same time, since no node fits.
		pod.Spec.SchedulerName = "another-scheduler"
		if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "bound", Namespace: s.namespace},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "a-far-node"},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		bound, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		if err := errors.Join(err, expect("node", bound.Spec.NodeName, "a-far-node")); err != nil {
			return err
		}
		bound.Status.Phase = corev1.PodRunning
		running, err := pods.UpdateStatus(ctx, bound, metav1.UpdateOptions{})
		if err := errors.Join(err, expect("phase", running.Status.Phase, corev1.PodRunning)); err != nil {
			return fmt.Errorf("status: %w", err)
		}
		running.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "registry.invalid/debug:1",
				TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullAlways},
		}}
		debugged, err := pods.UpdateEphemeralContainers(ctx, "bound", running, metav1.UpdateOptions{})
		if err := errors.Join(err, expect("debuggers", len(debugged.Spec.EphemeralContainers), 1)); err != nil {
			return fmt.Errorf("ephemeral containers: %w", err)
		}
		now := int64(0)
		err = pods.EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: "bound", Namespace: s.namespace},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &now},
		})
		if err != nil {
			return fmt.Errorf("evict: %w", err)
		}
		if _, err := pods.Get(ctx, "bound", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it was not evicted: %w", err)
		}
		return nil
	})
}
