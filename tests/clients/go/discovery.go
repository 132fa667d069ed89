package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

func checkDiscovery(s *session) {
	client := s.clients.Discovery()
	s.check("the server reports its version", func(context.Context) error {
		version, err := client.ServerVersion()
		if err != nil {
			return err
		}
		return errors.Join(expect("major", version.Major, "1"),
			expect("prefix", strings.HasPrefix(version.GitVersion, "v1."), true))
	})
	s.check("discovery lists groups and resources", func(context.Context) error {
		groups, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return err
		}
		if len(groups) < 10 {
			return fmt.Errorf("only %d groups", len(groups))
		}
		deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{
			Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}, lists) {
			for _, resource := range list.APIResources {
				if list.GroupVersion == deployments.GroupVersion().String() && resource.Name == deployments.Resource {
					return errors.Join(expect("kind", resource.Kind, "Deployment"),
						expect("namespaced", resource.Namespaced, true),
						expect("short name", slices.Contains(resource.ShortNames, "deploy"), true))
				}
			}
		}
		return errors.New("there are no deployments")
	})
	s.check("preferred resources are those of one version", func(context.Context) error {
		lists, err := client.ServerPreferredResources()
		if err != nil {
			return err
		}
		versions := map[string]bool{}
		for _, list := range lists {
			if strings.HasPrefix(list.GroupVersion, "autoscaling/") && len(list.APIResources) > 0 {
				versions[list.GroupVersion] = true
			}
		}
		return errors.Join(expect("versions of autoscaling", len(versions), 1),
			expect("v2", versions["autoscaling/v2"], true))
	})
	s.check("a resource list of one group", func(context.Context) error {
		list, err := client.ServerResourcesForGroupVersion("batch/v1")
		if err != nil {
			return err
		}
		return expect("group version", list.GroupVersion, "batch/v1")
	})
	s.check("a RESTMapper maps kinds to resources and back", func(context.Context) error {
		mapper := restmapper.NewShortcutExpander(
			restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil)
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "batch", Kind: "CronJob"})
		if err != nil {
			return err
		}
		kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "sts"})
		if err != nil {
			return err
		}
		return errors.Join(
			expect("resource", mapping.Resource.String(), "batch/v1, Resource=cronjobs"),
			expect("scope", mapping.Scope.Name(), meta.RESTScopeNameNamespace),
			expect("short name", kind.String(), "apps/v1, Kind=StatefulSet"))
	})
	s.check("the OpenAPI v2 document has the kinds", func(context.Context) error {
		document, err := client.OpenAPISchema()
		if err != nil {
			return err
		}
		for _, definition := range document.Definitions.AdditionalProperties {
			if definition.Name == "io.k8s.api.apps.v1.Deployment" {
				return nil
			}
		}
		return fmt.Errorf("no Deployment among %d definitions", len(document.Definitions.AdditionalProperties))
	})
	s.check("the OpenAPI v3 documents are fetched by group and version", func(context.Context) error {
		paths, err := client.OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		apps, there := paths["apis/apps/v1"]
		if !there {
			return fmt.Errorf("no apps/v1 among %d paths", len(paths))
		}
		document, err := apps.Schema("application/json")
		if err != nil {
			return err
		}
		return expect("mentions", strings.Contains(string(document), `"io.k8s.api.apps.v1.Deployment"`), true)
	})
	s.check("the server is ready", func(ctx context.Context) error {
		body, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return errors.Join(err, expect("readyz", string(body), "ok"))
	})
}
