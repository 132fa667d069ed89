package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// readManifest reads the object in a file of this repository, by its path from the root.
func readManifest(path string) (*unstructured.Unstructured, error) {
	_, source, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(source), "../../..", path))
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal(text, &object.Object)
}

// apply applies an object in its own API version, which it looks up in the discovery documents.
// A namespaced object is applied in the namespace of the session.
func apply(ctx context.Context, s *session, object *unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	kind := object.GroupVersionKind()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.clients.Discovery()))
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("find the resource of %s: %w", kind, err)
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(s.namespace)
	}
	applied, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "interop"})
	if err != nil {
		return fmt.Errorf("apply %s: %w", object.GetName(), err)
	}
	return expect("API version of the response", applied.GetAPIVersion(), object.GetAPIVersion())
}

// applyCRD applies the custom resource definition in a file, and waits until it is established.
func applyCRD(ctx context.Context, s *session, path string) error {
	crd, err := readManifest(path)
	if err != nil {
		return err
	}
	if err := apply(ctx, s, crd); err != nil {
		return err
	}
	return waitUntilEstablished(ctx, s, crd.GetName())
}

func waitUntilEstablished(ctx context.Context, s *session, name string) error {
	extensions, err := clientset.NewForConfig(s.config)
	if err != nil {
		return err
	}
	crds := extensions.ApiextensionsV1().CustomResourceDefinitions()
	return until(ctx, "it is established", func(ctx context.Context) (bool, error) {
		read, err := crds.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range read.Status.Conditions {
			if condition.Type == apiextensionsv1.Established {
				return condition.Status == apiextensionsv1.ConditionTrue, nil
			}
		}
		return false, nil
	})
}
