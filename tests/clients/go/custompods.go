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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// The API version of the textbook's kubebuilder project, which all sessions share.
var customPodVersion = schema.GroupVersion{Group: "zhhnzw.mock.com", Version: "v1"}

// A CustomPod declares a number of pods.
type CustomPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CustomPodSpec   `json:"spec,omitempty"`
	Status            CustomPodStatus `json:"status,omitempty"`
}

// CustomPodSpec is the desired state of a CustomPod.
type CustomPodSpec struct {
	Replicas int `json:"replicas"`
}

// CustomPodStatus is the observed state of a CustomPod. Go encodes no names as null.
type CustomPodStatus struct {
	Replicas int      `json:"replicas"`
	PodNames []string `json:"podNames"`
}

// DeepCopyObject implements runtime.Object.
func (c *CustomPod) DeepCopyObject() runtime.Object {
	copied := *c
	c.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.PodNames = slices.Clone(c.Status.PodNames)
	return &copied
}

// A CustomPodList is a list of CustomPods.
type CustomPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CustomPod `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *CustomPodList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]CustomPod, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*CustomPod)
	}
	return &copied
}

// A customPodReconciler creates or deletes one pod per reconcile; the event of that pod causes the
// next one. With a stale cache it may create a pod too many, which it deletes later.
type customPodReconciler struct {
	crclient.Client
	scheme *runtime.Scheme
}

func (r *customPodReconciler) setupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&CustomPod{}).Owns(&corev1.Pod{}).Complete(r)
}

func (r *customPodReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	custom := &CustomPod{}
	if err := r.Get(ctx, request.NamespacedName, custom); err != nil {
		// The garbage collector deletes the pods of a CustomPod that was deleted.
		return ctrl.Result{}, crclient.IgnoreNotFound(err)
	}
	pods, err := livePods(ctx, r.Client, custom)
	if err != nil {
		return ctrl.Result{}, err
	}
	names := podNames(pods)
	if custom.Status.Replicas != len(names) || !slices.Equal(custom.Status.PodNames, names) {
		custom.Status = CustomPodStatus{Replicas: len(names), PodNames: names}
		if err := r.Status().Update(ctx, custom); err != nil {
			return ctrl.Result{}, err
		}
	}
	if len(pods) > custom.Spec.Replicas {
		return ctrl.Result{}, crclient.IgnoreNotFound(r.Delete(ctx, &pods[0]))
	}
	if len(pods) < custom.Spec.Replicas {
		pod := podOf(custom)
		if err := controllerutil.SetControllerReference(custom, pod, r.scheme); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.Create(ctx, pod)
	}
	return ctrl.Result{}, nil
}

func podOf(custom *CustomPod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: custom.Namespace, GenerateName: custom.Name + "-", Labels: map[string]string{"app": custom.Name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "busybox", Image: "busybox", Command: []string{"sleep", "3600"},
		}}},
	}
}

// livePods lists the pods of a CustomPod that are pending or running and not being deleted, by name.
func livePods(ctx context.Context, reader crclient.Reader, custom *CustomPod) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := reader.List(ctx, &list, crclient.InNamespace(custom.Namespace), crclient.MatchingLabels{"app": custom.Name})
	live := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		active := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning
		return !active || pod.DeletionTimestamp != nil
	})
	slices.SortFunc(live, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return live, err
}

func podNames(pods []corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

func newCustomPodManager(s *session) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(customPodVersion, &CustomPod{}, &CustomPodList{})
	metav1.AddToGroupVersion(scheme, customPodVersion)
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(s.config)
	// controller-runtime chooses the content type: protobuf for pods, and JSON for CustomPods.
	plain.ContentType = ""
	manager, err := ctrl.NewManager(plain, ctrl.Options{
		Scheme:  scheme,
		Metrics: metrics.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		// The next session starts another controller in the same process.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, err
	}
	reconciler := &customPodReconciler{Client: manager.GetClient(), scheme: scheme}
	return manager, reconciler.setupWithManager(manager)
}

// checkCustomPods runs the textbook's kubebuilder project with its sample.
func checkCustomPods(s *session) {
	s.check("the CRD of CustomPod is established", func(ctx context.Context) error {
		return applyCRD(ctx, s, "operators/custompod/crd/custompods.yaml")
	})
	manager, err := newCustomPodManager(s)
	if err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	checkScaling(s, manager.GetAPIReader())
	checkCollection(s, manager)
	s.check("the manager of the CustomPod controller stops", func(ctx context.Context) error {
		stop()
		err, timeout := receive(ctx, "end of the manager", ended)
		return errors.Join(err, timeout)
	})
}

// checkScaling applies the sample with the textbook's numbers of replicas, and then with none.
func checkScaling(s *session, reader crclient.Reader) {
	before := 0
	for _, replicas := range []int{1, 3, 1, 0} {
		s.check(fmt.Sprintf("the CustomPod controller scales from %d to %d", before, replicas), func(ctx context.Context) error {
			custom, err := scaleSample(ctx, s, reader, replicas)
			// The default of the schema replaces null.
			return errors.Join(err, expect("podNames is null", custom.Status.PodNames == nil, false))
		})
		before = replicas
	}
	s.check("the pods of the CustomPod that were deleted end", func(ctx context.Context) error {
		return waitUntilNoPods(ctx, s, reader)
	})
}

// checkCollection checks that the plane's garbage collector deletes the pods, which the controller
// does not.
func checkCollection(s *session, manager ctrl.Manager) {
	s.check("the garbage collector deletes the pods of a deleted CustomPod", func(ctx context.Context) error {
		custom, err := scaleSample(ctx, s, manager.GetAPIReader(), 2)
		if err != nil {
			return err
		}
		if err := manager.GetClient().Delete(ctx, custom); err != nil {
			return err
		}
		err = manager.GetAPIReader().Get(ctx, crclient.ObjectKeyFromObject(custom), &CustomPod{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("got after its deletion: %w", err)
		}
		return waitUntilNoPods(ctx, s, manager.GetAPIReader())
	})
}

// scaleSample applies the sample with a number of replicas, and waits until it has that many live
// pods, which it controls, and a status with their names.
func scaleSample(ctx context.Context, s *session, reader crclient.Reader, replicas int) (*CustomPod, error) {
	custom := &CustomPod{}
	sample, err := readManifest("operators/custompod/example/custompod-sample.yaml")
	if err != nil {
		return custom, err
	}
	if err := unstructured.SetNestedField(sample.Object, int64(replicas), "spec", "replicas"); err != nil {
		return custom, err
	}
	if err := apply(ctx, s, sample); err != nil {
		return custom, err
	}
	var names []string
	err = until(ctx, "the pods and the status are as declared", func(ctx context.Context) (bool, error) {
		*custom = CustomPod{}
		key := crclient.ObjectKey{Namespace: s.namespace, Name: sample.GetName()}
		if err := reader.Get(ctx, key, custom); err != nil {
			return false, err
		}
		pods, err := livePods(ctx, reader, custom)
		if err != nil {
			return false, err
		}
		for _, pod := range pods {
			if !metav1.IsControlledBy(&pod, custom) {
				return false, fmt.Errorf("pod %s has the owners %v", pod.Name, pod.OwnerReferences)
			}
		}
		names = podNames(pods)
		return len(names) == replicas && custom.Status.Replicas == replicas &&
			slices.Equal(custom.Status.PodNames, names), nil
	})
	if err != nil {
		err = fmt.Errorf("%w: the pods are %v, the status is %+v", err, names, custom.Status)
	}
	return custom, err
}

// waitUntilNoPods waits until no pod of the sample exists, live or not.
func waitUntilNoPods(ctx context.Context, s *session, reader crclient.Reader) error {
	return until(ctx, "the pods do not exist", func(ctx context.Context) (bool, error) {
		var list corev1.PodList
		err := reader.List(ctx, &list, crclient.InNamespace(s.namespace), crclient.MatchingLabels{"app": "custompod-sample"})
		return err == nil && len(list.Items) == 0, err
	})
}
