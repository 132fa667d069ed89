package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "interop.example/mooring"

// A Boat is the custom resource as a Go type.
type Boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              BoatSpec   `json:"spec,omitempty"`
	Status            BoatStatus `json:"status,omitempty"`
}

// BoatSpec is the desired state of a boat.
type BoatSpec struct {
	Crew int64  `json:"crew,omitempty"`
	Port string `json:"port,omitempty"`
}

// BoatStatus is the observed state of a boat.
type BoatStatus struct {
	Crew  int64  `json:"crew,omitempty"`
	Place string `json:"place,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (b *Boat) DeepCopyObject() runtime.Object {
	copied := *b
	b.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// A BoatList is a list of boats.
type BoatList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Boat `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *BoatList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Boat, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Boat)
	}
	return &copied
}

// A boatReconciler maintains a configmap for each boat.
type boatReconciler struct{ client crclient.Client }

func (h boatReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	boat := &Boat{}
	if err := h.client.Get(ctx, request.NamespacedName, boat); err != nil {
		return ctrl.Result{}, crclient.IgnoreNotFound(err)
	}
	mooring := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: boat.Namespace, Name: boat.Name + "-mooring"}}
	if boat.DeletionTimestamp != nil {
		if err := crclient.IgnoreNotFound(h.client.Delete(ctx, mooring)); err != nil {
			return ctrl.Result{}, err
		}
		before := boat.DeepCopyObject().(*Boat)
		controllerutil.RemoveFinalizer(boat, finalizer)
		return ctrl.Result{}, crclient.IgnoreNotFound(h.client.Patch(ctx, boat, crclient.MergeFrom(before)))
	}
	if controllerutil.AddFinalizer(boat, finalizer) {
		if err := h.client.Update(ctx, boat); err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, h.client, mooring, func() error {
		mooring.Data = map[string]string{"crew": strconv.FormatInt(boat.Spec.Crew, 10)}
		return controllerutil.SetControllerReference(boat, mooring, h.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := boat.DeepCopyObject().(*Boat)
	boat.Status = BoatStatus{Crew: boat.Spec.Crew, Place: "moored"}
	return ctrl.Result{}, h.client.Status().Patch(ctx, boat, crclient.MergeFrom(before))
}

func newManager(s *session) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	version := boats(s).GroupVersion()
	scheme.AddKnownTypes(version, &Boat{}, &BoatList{})
	metav1.AddToGroupVersion(scheme, version)
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(s.config)
	// controller-runtime chooses the content type: protobuf for built-in kinds, and JSON for boats.
	plain.ContentType = ""
	manager, err := ctrl.NewManager(plain, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metrics.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "boats",
		LeaderElectionNamespace: s.namespace,
		// The next session starts another controller in the same process.
		Controller:                    config.Controller{SkipNameValidation: new(true)},
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, err
	}
	err = manager.GetFieldIndexer().IndexField(context.Background(), &Boat{}, "spec.port", func(it crclient.Object) []string {
		return []string{it.(*Boat).Spec.Port}
	})
	if err != nil {
		return nil, err
	}
	return manager, ctrl.NewControllerManagedBy(manager).
		For(&Boat{}).Owns(&corev1.ConfigMap{}).Complete(boatReconciler{manager.GetClient()})
}

func checkManager(s *session) {
	s.check("controller-runtime's manager reconciles, owns and finalizes", func(ctx context.Context) error {
		manager, err := newManager(s)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- manager.Start(ctx) }()
		err = checkReconciles(ctx, s, manager.GetClient())
		stop()
		return errors.Join(err, <-ended)
	})
}

// checkReconciles creates, changes and deletes a boat, and checks the writes of the reconciler.
func checkReconciles(ctx context.Context, s *session, client crclient.Client) error {
	boat := &Boat{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ferry"}, Spec: BoatSpec{Crew: 4, Port: "east"}}
	if err := client.Create(ctx, boat); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	err := until(ctx, "the status is written", func(ctx context.Context) (bool, error) {
		var list BoatList
		err := client.List(ctx, &list, crclient.InNamespace(s.namespace), crclient.MatchingFields{"spec.port": "east"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Status.Place == "moored", err
	})
	if err != nil {
		return err
	}
	mooring := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ferry-mooring"}}
	key := crclient.ObjectKeyFromObject(mooring)
	if err := client.Delete(ctx, mooring); err != nil {
		return fmt.Errorf("delete the owned configmap: %w", err)
	}
	err = until(ctx, "the owned configmap is created again", func(ctx context.Context) (bool, error) {
		again := &corev1.ConfigMap{}
		err := client.Get(ctx, key, again)
		return err == nil && again.DeletionTimestamp == nil && again.Data["crew"] == "4", crclient.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, boat); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return until(ctx, "the boat and its configmap are deleted", func(ctx context.Context) (bool, error) {
		gone := apierrors.IsNotFound(client.Get(ctx, crclient.ObjectKeyFromObject(boat), &Boat{}))
		return gone && apierrors.IsNotFound(client.Get(ctx, key, &corev1.ConfigMap{})), nil
	})
}
