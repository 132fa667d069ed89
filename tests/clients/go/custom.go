package main

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

// boats is the custom resource of a session; each session has a separate API group.
func boats(s *session) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.name + ".interop.example", Version: "v1", Resource: "boats"}
}

func boatCRD(s *session) *apiextensionsv1.CustomResourceDefinition {
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	crew := apiextensionsv1.JSONSchemaProps{
		Type: "integer", Minimum: new(0.0), Default: &apiextensionsv1.JSON{Raw: []byte("1")},
	}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	schema := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec":   object(map[string]apiextensionsv1.JSONSchemaProps{"crew": crew, "port": {Type: "string"}}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"crew": integer, "place": {Type: "string"}}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats." + boats(s).Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: boats(s).Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Kind: "Boat", ShortNames: []string{"bo"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.crew", StatusReplicasPath: ".status.crew",
					},
				},
			}},
		},
	}
}

func boat(s *session, name string) *unstructured.Unstructured {
	it := &unstructured.Unstructured{}
	it.SetGroupVersionKind(boats(s).GroupVersion().WithKind("Boat"))
	it.SetName(name)
	it.SetLabels(map[string]string{"run": name})
	return it
}

func checkCustomResources(s *session) {
	s.check("a custom resource definition is established", func(ctx context.Context) error {
		extensions, err := clientset.NewForConfig(s.config)
		if err != nil {
			return err
		}
		created, err := extensions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, boatCRD(s), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return waitUntilEstablished(ctx, s, created.Name)
	})
	s.check("a RESTMapper finds a custom resource", func(context.Context) error {
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.clients.Discovery()))
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: boats(s).Group, Kind: "Boat"})
		if err != nil {
			return err
		}
		return expect("resource", mapping.Resource, boats(s))
	})
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		panic(err)
	}
	checkDynamicClient(s, client)
	checkDynamicInformer(s, client)
}

func checkDynamicClient(s *session, client dynamic.Interface) {
	fleet := client.Resource(boats(s)).Namespace(s.namespace)
	s.check("the dynamic client writes custom resources", func(ctx context.Context) error {
		fresh := boat(s, "dinghy")
		unstructured.SetNestedField(fresh.Object, "home", "spec", "port")
		unstructured.SetNestedField(fresh.Object, "dropped", "spec", "unknown")
		created, err := fleet.Create(ctx, fresh, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		crew, _, _ := unstructured.NestedInt64(created.Object, "spec", "crew")
		_, unknown, _ := unstructured.NestedString(created.Object, "spec", "unknown")
		if err := errors.Join(expect("default crew", crew, 1), expect("unknown field", unknown, false)); err != nil {
			return err
		}
		patch := []byte(`{"spec":{"crew":2}}`)
		patched, err := fleet.Patch(ctx, "dinghy", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		unstructured.SetNestedField(patched.Object, "at sea", "status", "place")
		unstructured.SetNestedField(patched.Object, int64(9), "spec", "crew")
		written, err := fleet.UpdateStatus(ctx, patched, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		crew, _, _ = unstructured.NestedInt64(written.Object, "spec", "crew")
		place, _, _ := unstructured.NestedString(written.Object, "status", "place")
		scale, err := fleet.Get(ctx, "dinghy", metav1.GetOptions{}, "scale")
		if err != nil {
			return err
		}
		replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
		return errors.Join(expect("crew", crew, 2), expect("place", place, "at sea"),
			expect("generation", written.GetGeneration(), 2), expect("replicas", replicas, 2))
	})
	s.check("a custom resource that violates its schema is refused", func(ctx context.Context) error {
		wrong := boat(s, "wrong")
		unstructured.SetNestedField(wrong.Object, int64(-1), "spec", "crew")
		if _, err := fleet.Create(ctx, wrong, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			return fmt.Errorf("unexpected result: %w", err)
		}
		return nil
	})
	s.check("the dynamic client deletes a collection", func(ctx context.Context) error {
		err := fleet.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "run=dinghy"})
		if err != nil {
			return err
		}
		list, err := fleet.List(ctx, metav1.ListOptions{})
		return errors.Join(err, expect("boats left", len(list.Items), 0))
	})
}

func checkDynamicInformer(s *session, client dynamic.Interface) {
	fleet := client.Resource(boats(s)).Namespace(s.namespace)
	s.check("a dynamic informer watches a custom resource", func(ctx context.Context) error {
		factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, s.namespace, nil)
		informer := factory.ForResource(boats(s)).Informer()
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
		created, err := fleet.Create(ctx, boat(s, "barge"), metav1.CreateOptions{})
		if err := errors.Join(err, waitForEvent(ctx, "add barge", seen)); err != nil {
			return err
		}
		unstructured.SetNestedField(created.Object, int64(3), "spec", "crew")
		_, err = fleet.Update(ctx, created, metav1.UpdateOptions{})
		if err := errors.Join(err, waitForEvent(ctx, "update barge", seen)); err != nil {
			return err
		}
		err = fleet.Delete(ctx, "barge", metav1.DeleteOptions{})
		return errors.Join(err, waitForEvent(ctx, "delete barge", seen))
	})
}
