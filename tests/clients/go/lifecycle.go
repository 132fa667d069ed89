package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
)

type object interface {
	metav1.Object
	runtime.Object
}

// A client is the common interface of client-go's typed clients.
type client[T object, L runtime.Object] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions,
		subresources ...string) (T, error)
}

// collectionDeleter is a client with deletecollection; those of services and namespaces lack it.
type collectionDeleter interface {
	DeleteCollection(ctx context.Context, options metav1.DeleteOptions, listOptions metav1.ListOptions) error
}

var patches = []struct {
	kind types.PatchType
	key  string
	body string
}{
	{types.MergePatchType, "merge", `{"metadata":{"annotations":{"merge":"yes"}}}`},
	{types.StrategicMergePatchType, "strategic", `{"metadata":{"annotations":{"strategic":"yes"}}}`},
	{types.JSONPatchType, "json", `[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]`},
}

// checkLifecycle runs all verbs on one object of a kind while it is watched.
func checkLifecycle[T object, L runtime.Object](s *session, kind string, client client[T, L], fresh T) {
	name := fresh.GetName()
	selector := metav1.ListOptions{LabelSelector: "run=" + name}
	s.check(kind+" are created, read, changed and deleted", func(ctx context.Context) error {
		empty, err := items(client.List(ctx, selector))
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if err := expect("objects before the first", len(empty.objects), 0); err != nil {
			return err
		}
		watcher, err := client.Watch(ctx, metav1.ListOptions{
			LabelSelector: selector.LabelSelector, ResourceVersion: empty.version, AllowWatchBookmarks: true,
		})
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		defer watcher.Stop()
		created, err := createAndRead(ctx, client, fresh, selector)
		if err != nil {
			return err
		}
		changed, err := updateAndPatch(ctx, client, created)
		if err != nil {
			return err
		}
		if err := deleteAndRead(ctx, client, changed); err != nil {
			return err
		}
		return checkEvents(ctx, watcher, created, changed)
	})
	if many, can := client.(collectionDeleter); can {
		s.check(kind+" are deleted as a collection", func(ctx context.Context) error {
			for _, suffix := range []string{"-1", "-2"} {
				second := fresh.DeepCopyObject().(T)
				second.SetName(name + suffix)
				if _, err := client.Create(ctx, second, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			if err := many.DeleteCollection(ctx, deleteNow(), selector); err != nil {
				return err
			}
			left, err := items(client.List(ctx, selector))
			return errors.Join(err, expect("objects left", len(left.objects), 0))
		})
	}
}

// createAndRead creates the object and reads it by name and in a list.
func createAndRead[T object, L runtime.Object](
	ctx context.Context, client client[T, L], fresh T, selector metav1.ListOptions,
) (T, error) {
	created, err := client.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		return created, fmt.Errorf("create: %w", err)
	}
	if err := contains(created, fresh); err != nil {
		return created, fmt.Errorf("what was created is not what was sent: %w", err)
	}
	if created.GetUID() == "" || created.GetResourceVersion() == "" || created.GetCreationTimestamp().Time.IsZero() {
		return created, fmt.Errorf("created without uid, version or time: %+v", created)
	}
	read, err := client.Get(ctx, fresh.GetName(), metav1.GetOptions{})
	if err != nil {
		return created, fmt.Errorf("get: %w", err)
	}
	if err := sameObject(read, created); err != nil {
		return created, fmt.Errorf("what was read is not what was created: %w", err)
	}
	listed, err := items(client.List(ctx, selector))
	if err != nil {
		return created, fmt.Errorf("list: %w", err)
	}
	if err := expect("objects in the list", len(listed.objects), 1); err != nil {
		return created, err
	}
	if err := sameObject(listed.objects[0].(T), created); err != nil {
		return created, fmt.Errorf("what was listed is not what was created: %w", err)
	}
	if _, err = client.Create(ctx, fresh, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return created, fmt.Errorf("created twice: %w", err)
	}
	return created, nil
}

// sameObject compares two reads of one object; if a controller has written to it in between, only
// its identity is compared.
func sameObject[T object](got, wanted T) error {
	if err := expect("uid", got.GetUID(), wanted.GetUID()); err != nil {
		return err
	}
	if got.GetResourceVersion() != wanted.GetResourceVersion() {
		return nil
	}
	return same(got, wanted)
}

// updateAndPatch changes the object with all write verbs and returns the result.
func updateAndPatch[T object, L runtime.Object](ctx context.Context, client client[T, L], created T) (T, error) {
	var changed T
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read, err := client.Get(ctx, created.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := map[string]string{"update": "yes"}
		maps.Copy(annotations, read.GetAnnotations())
		read.SetAnnotations(annotations)
		changed, err = client.Update(ctx, read, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return changed, fmt.Errorf("update: %w", err)
	}
	for _, patch := range patches {
		changed, err = client.Patch(ctx, created.GetName(), patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if err != nil {
			return changed, fmt.Errorf("%s patch: %w", patch.key, err)
		}
		if err := expect("annotation "+patch.key, changed.GetAnnotations()[patch.key], "yes"); err != nil {
			return changed, err
		}
	}
	if _, err = client.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return changed, fmt.Errorf("a stale update: %w", err)
	}
	return changed, nil
}

// deleteAndRead deletes the object and checks that it is not found.
func deleteAndRead[T object, L runtime.Object](ctx context.Context, client client[T, L], last T) error {
	other := types.UID("another")
	options := deleteNow()
	options.Preconditions = &metav1.Preconditions{UID: &other}
	if err := client.Delete(ctx, last.GetName(), options); !apierrors.IsConflict(err) {
		return fmt.Errorf("deleted in spite of another uid: %w", err)
	}
	uid := last.GetUID()
	options.Preconditions.UID = &uid
	if err := client.Delete(ctx, last.GetName(), options); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if _, err := client.Get(ctx, last.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("got after its deletion: %w", err)
	}
	return nil
}

// deleteNow deletes immediately: pods would exist for their grace period, and jobs until the
// garbage collector has orphaned their pods.
func deleteNow() metav1.DeleteOptions {
	options := metav1.NewDeleteOptions(0)
	background := metav1.DeletePropagationBackground
	options.PropagationPolicy = &background
	return *options
}

// checkEvents compares the events of a watch with the writes.
func checkEvents[T object](ctx context.Context, watcher watch.Interface, first, last T) error {
	modifications := 0
	for {
		event, err := receive(ctx, "the next event", watcher.ResultChan())
		if err != nil {
			return err
		}
		switch event.Type {
		case watch.Added:
			if err := sameObject(event.Object.(T), first); err != nil {
				return fmt.Errorf("what was watched is not what was created: %w", err)
			}
		case watch.Modified:
			modifications++
		case watch.Deleted:
			deleted := event.Object.(T)
			if deleted.GetResourceVersion() == last.GetResourceVersion() {
				return fmt.Errorf("the deletion has the version of the last change")
			}
			for _, patch := range patches {
				if err := expect(patch.key+" at the end", deleted.GetAnnotations()[patch.key], "yes"); err != nil {
					return err
				}
			}
			if modifications < 1+len(patches) {
				return fmt.Errorf("saw %d modifications", modifications)
			}
			return nil
		case watch.Bookmark:
		default:
			return fmt.Errorf("watched %s: %w", event.Type, apierrors.FromObject(event.Object))
		}
	}
}

// A listing has the items of a typed list.
type listing struct {
	version string
	objects []runtime.Object
}

func items[L runtime.Object](list L, err error) (listing, error) {
	if err != nil {
		return listing{}, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return listing{}, err
	}
	objects, err := meta.ExtractList(list)
	return listing{accessor.GetResourceVersion(), objects}, err
}
