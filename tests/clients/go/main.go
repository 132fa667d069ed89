// Command clients tests the API server of $KUBECONFIG with client-go and controller-runtime in
// their default configuration. It prints `ok NAME` or `FAIL NAME: reason` for each check, and fails
// if a check failed.
package main

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// The topics in the order of the run; each has a separate file.
var topics = []func(*session){
	checkDiscovery,
	checkCoreKinds,
	checkWorkloadKinds,
	checkGroupKinds,
	checkSubresources,
	checkReads,
	checkWrites,
	checkInformers,
	checkCustomResources,
	checkElection,
	checkManager,
	checkNetworks,
	checkCustomPods,
	checkWire,
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	// The rate limit of the client does not concern the server, and would make the run take minutes.
	config.QPS = -1

	// client-go's default, and the content type of controller-runtime and Kubernetes' components.
	failed := run("json", config)
	config.ContentType = runtime.ContentTypeProtobuf
	failed += run("protobuf", config)
	if failed > 0 {
		os.Exit(1)
	}
}

// run runs all checks in one content type and returns the number of failures.
func run(name string, config *rest.Config) int {
	s, err := newSession(name, config)
	if err != nil {
		fmt.Printf("FAIL go %s: cannot begin: %v\n", name, err)
		return 1
	}
	for _, topic := range topics {
		topic(s)
	}
	return s.failed
}
