package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The custom resource of the textbook's controller on client-go, which all sessions share.
var (
	networkVersion  = schema.GroupVersion{Group: "samplecrd.k8s.io", Version: "v1"}
	networkResource = networkVersion.WithResource("networks")
)

// A Network declares a network of OpenStack Neutron. It has no status.
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NetworkSpec `json:"spec"`
}

// NetworkSpec is the desired state of a network.
type NetworkSpec struct {
	Cidr    string `json:"cidr"`
	Gateway string `json:"gateway"`
}

// DeepCopyObject implements runtime.Object.
func (n *Network) DeepCopyObject() runtime.Object {
	copied := *n
	n.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// A NetworkList is a list of networks.
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Network `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *NetworkList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Network, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Network)
	}
	return &copied
}

// networkClient is a typed client on a REST client, as client-gen generates it.
func networkClient(s *session) (rest.Interface, client[*Network, *NetworkList], error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(networkVersion, &Network{}, &NetworkList{})
	metav1.AddToGroupVersion(scheme, networkVersion)
	config := rest.CopyConfig(s.config)
	config.GroupVersion = &networkVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources have no protobuf encoding.
	config.ContentType = runtime.ContentTypeJSON
	raw, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	typed := gentype.NewClientWithList("networks", raw, runtime.NewParameterCodec(scheme), s.namespace,
		func() *Network { return &Network{} }, func() *NetworkList { return &NetworkList{} })
	return raw, typed, nil
}

// A fakeNeutron has the networks that a controller created, by the keys of their objects.
type fakeNeutron struct {
	mutex    sync.Mutex
	networks map[string]NetworkSpec
	// The number of requests that are refused before the first that succeeds.
	refusals int
}

// put creates or updates a network.
func (n *fakeNeutron) put(key string, spec NetworkSpec) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.refusals > 0 {
		n.refusals--
		return errors.New("the service is unavailable")
	}
	n.networks[key] = spec
	return nil
}

func (n *fakeNeutron) remove(key string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.networks, key)
}

func (n *fakeNeutron) get(key string) (NetworkSpec, bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	spec, exists := n.networks[key]
	return spec, exists
}

// equals reports whether the networks are the given ones.
func (n *fakeNeutron) equals(networks map[string]NetworkSpec) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return maps.Equal(n.networks, networks)
}

// A networkController has the shape of client-go's sample: an informer and a lister, a rate-limited
// queue of keys, and workers.
type networkController struct {
	informer cache.SharedIndexInformer
	lister   listers.ResourceIndexer[*Network]
	queue    workqueue.TypedRateLimitingInterface[string]
	neutron  *fakeNeutron
	// The successful syncs: `sync KEY VERSION`, or `delete KEY` for a key that is not in the cache.
	synced chan string
	// The number of updates without a change of the resource version.
	skipped atomic.Int64
}

func newNetworkController(s *session, client rest.Interface) (*networkController, error) {
	source := cache.NewListWatchFromClient(client, networkResource.Resource, s.namespace, fields.Everything())
	// The shortest resync period of an informer.
	informer := cache.NewSharedIndexInformer(source, &Network{}, time.Second,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	c := &networkController{
		informer: informer,
		lister:   listers.New[*Network](informer.GetIndexer(), networkResource.GroupResource()),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		neutron:  &fakeNeutron{networks: map[string]NetworkSpec{}, refusals: 1},
		synced:   make(chan string, 1000),
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueue,
		UpdateFunc: func(before, after any) {
			if before.(*Network).ResourceVersion == after.(*Network).ResourceVersion {
				c.skipped.Add(1)
				return
			}
			c.enqueue(after)
		},
		DeleteFunc: c.enqueue,
	})
	return c, err
}

func (c *networkController) enqueue(object any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		panic(err)
	}
	c.queue.Add(key)
}

// run runs the informer and the workers until the context is canceled.
func (c *networkController) run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	running.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return
	}
	for range workers {
		running.Go(func() { wait.UntilWithContext(ctx, c.runWorker, time.Second) })
	}
	<-ctx.Done()
}

func (c *networkController) runWorker(context.Context) {
	for c.processNextKey() {
	}
}

// processNextKey syncs one key, later again if that failed, and reports whether the queue is open.
func (c *networkController) processNextKey() bool {
	key, closed := c.queue.Get()
	if closed {
		return false
	}
	defer c.queue.Done(key)
	event, err := c.sync(key)
	if err != nil {
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	c.synced <- event
	return true
}

// sync changes the network of a key from its actual to its desired state.
func (c *networkController) sync(key string) (string, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return "", err
	}
	network, err := listers.NewNamespaced(c.lister, namespace).Get(name)
	if apierrors.IsNotFound(err) {
		c.neutron.remove(key)
		return "delete " + key, nil
	}
	if err != nil {
		return "", err
	}
	if actual, exists := c.neutron.get(key); !exists || actual != network.Spec {
		if err := c.neutron.put(key, network.Spec); err != nil {
			return "", err
		}
	}
	return "sync " + key + " " + network.ResourceVersion, nil
}

// expectSync fails unless the next sync is the given one.
func (c *networkController) expectSync(ctx context.Context, event string) error {
	got, err := receive(ctx, event, c.synced)
	return errors.Join(err, expect("sync", got, event))
}

// checkNetworks runs the textbook's controller on client-go with its original manifests.
func checkNetworks(s *session) {
	s.check("the v1beta1 CRD of Network is established, and its example is accepted", func(ctx context.Context) error {
		if err := applyCRD(ctx, s, "operators/network/crd/textbook/network.yaml"); err != nil {
			return err
		}
		example, err := readManifest("operators/network/example/example-network.yaml")
		if err != nil {
			return err
		}
		return apply(ctx, s, example)
	})
	raw, client, err := networkClient(s)
	if err != nil {
		panic(err)
	}
	controller, err := newNetworkController(s, raw)
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); controller.run(ctx, 2) }()
	defer func() { stop(); <-ended }()
	checkExampleNetwork(s, client, controller)
	checkManyNetworks(s, client, controller)
}

// checkExampleNetwork checks the controller with one network.
func checkExampleNetwork(s *session, client client[*Network, *NetworkList], controller *networkController) {
	const name = "example-network"
	key := s.namespace + "/" + name
	s.check("the Network controller creates the network of the example", func(ctx context.Context) error {
		network, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := controller.expectSync(ctx, "sync "+key+" "+network.ResourceVersion); err != nil {
			return err
		}
		actual, _ := controller.neutron.get(key)
		return expect("network", actual, NetworkSpec{Cidr: "192.168.0.0/16", Gateway: "192.168.0.1"})
	})
	s.check("the Network controller sees a change once, and skips resyncs", func(ctx context.Context) error {
		network, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		network.Spec.Gateway = "192.168.0.2"
		updated, err := client.Update(ctx, network, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		if updated.ResourceVersion == network.ResourceVersion {
			return errors.New("the update has not changed the resource version")
		}
		if err := controller.expectSync(ctx, "sync "+key+" "+updated.ResourceVersion); err != nil {
			return err
		}
		actual, _ := controller.neutron.get(key)
		if err := expect("network", actual, updated.Spec); err != nil {
			return err
		}
		before := controller.skipped.Load()
		err = until(ctx, "the informer resyncs", func(context.Context) (bool, error) {
			return controller.skipped.Load() > before, nil
		})
		return errors.Join(err, expect("syncs without a change", len(controller.synced), 0))
	})
	s.check("the Network controller deletes the network of a key that is not in its cache", func(ctx context.Context) error {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := controller.expectSync(ctx, "delete "+key); err != nil {
			return err
		}
		_, exists := controller.neutron.get(key)
		return expect("the network exists", exists, false)
	})
}

// checkManyNetworks compares Neutron with the API after additions, updates and deletions.
func checkManyNetworks(s *session, client client[*Network, *NetworkList], controller *networkController) {
	s.check("the networks in Neutron are those that the API declares", func(ctx context.Context) error {
		networks := make([]*Network, 20)
		for i := range networks {
			created, err := client.Create(ctx, &Network{
				ObjectMeta: named(fmt.Sprintf("network-%d", i)),
				Spec:       NetworkSpec{Cidr: fmt.Sprintf("10.%d.0.0/16", i), Gateway: fmt.Sprintf("10.%d.0.1", i)},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			networks[i] = created
		}
		if err := waitForNetworks(ctx, client, controller, 20); err != nil {
			return fmt.Errorf("after the additions: %w", err)
		}
		for i := 0; i < len(networks); i += 2 {
			networks[i].Spec.Gateway = fmt.Sprintf("10.%d.0.254", i)
			if _, err := client.Update(ctx, networks[i], metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if err := waitForNetworks(ctx, client, controller, 20); err != nil {
			return fmt.Errorf("after the updates: %w", err)
		}
		for i := 0; i < len(networks); i += 3 {
			if err := client.Delete(ctx, networks[i].Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		if err := waitForNetworks(ctx, client, controller, 13); err != nil {
			return fmt.Errorf("after the deletions: %w", err)
		}
		return nil
	})
}

// waitForNetworks waits until Neutron has the networks of the API, whose number is `count`.
func waitForNetworks(
	ctx context.Context, client client[*Network, *NetworkList], controller *networkController, count int,
) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err := errors.Join(err, expect("networks in the API", len(list.Items), count)); err != nil {
		return err
	}
	declared := map[string]NetworkSpec{}
	for _, network := range list.Items {
		declared[network.Namespace+"/"+network.Name] = network.Spec
	}
	return until(ctx, "Neutron has the networks of the API", func(context.Context) (bool, error) {
		return controller.neutron.equals(declared), nil
	})
}
