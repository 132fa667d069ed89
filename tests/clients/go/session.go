package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The timeout of a check, long enough for a busy machine.
const checkTimeout = 30 * time.Second

// A session runs checks in one content type and in a separate namespace.
type session struct {
	name         string
	namespace    string
	config       *rest.Config
	clients      kubernetes.Interface
	contentTypes *contentTypes
	failed       int
}

func newSession(name string, config *rest.Config) (*session, error) {
	s := &session{
		name:         name,
		namespace:    "go-" + name,
		config:       rest.CopyConfig(config),
		contentTypes: &contentTypes{counts: map[string]int{}},
	}
	s.config.Wrap(s.contentTypes.wrap)
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	s.clients = clients
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	_, err = clients.CoreV1().Namespaces().Create(context.Background(), namespace, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	// Pods need the service account, and its controller may be slow or absent.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = clients.CoreV1().ServiceAccounts(s.namespace).Create(context.Background(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	return s, nil
}

// check runs one check and prints its result. Other checks run after a failure.
func (s *session) check(name string, body func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := body(ctx); err != nil {
		fmt.Printf("FAIL go %s: %s: %v\n", s.name, name, err)
		s.failed++
		return
	}
	fmt.Printf("ok go %s: %s\n", s.name, name)
}

// named is the metadata of an object of this program; all objects have the label `run`.
func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"run": name}}
}

// until polls a condition until it is true, fails, or times out.
func until(ctx context.Context, what string, condition func(ctx context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, condition)
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// receive receives one value from a channel.
func receive[T any](ctx context.Context, what string, channel <-chan T) (T, error) {
	var zero T
	select {
	case value, open := <-channel:
		if !open {
			return zero, fmt.Errorf("the channel ended before %s", what)
		}
		return value, nil
	case <-ctx.Done():
		return zero, fmt.Errorf("timeout: no %s", what)
	}
}

// expect fails unless the two are equal.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, expected %v", what, got, want)
	}
	return nil
}

// contentTypes counts the responses to protobuf requests by their content type.
type contentTypes struct {
	mutex  sync.Mutex
	counts map[string]int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (a *contentTypes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && strings.HasPrefix(request.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
			media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
			a.mutex.Lock()
			a.counts[media]++
			a.mutex.Unlock()
		}
		return response, err
	})
}

// checkWire checks that the second run used protobuf.
func checkWire(s *session) {
	if s.config.ContentType != runtime.ContentTypeProtobuf {
		return
	}
	s.check("responses to protobuf requests are protobuf", func(context.Context) error {
		s.contentTypes.mutex.Lock()
		defer s.contentTypes.mutex.Unlock()
		if s.contentTypes.counts[runtime.ContentTypeProtobuf] < 100 {
			return fmt.Errorf("the content types are %v", s.contentTypes.counts)
		}
		return nil
	})
}
