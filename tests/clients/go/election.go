package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func checkElection(s *session) {
	s.check("one of two candidates leads, and the other one after its release", func(ctx context.Context) error {
		led := make(chan string, 2)
		first, stepDown := context.WithCancel(ctx)
		defer stepDown()
		second, stop := context.WithCancel(ctx)
		defer stop()
		if err := runCandidate(first, s, "first", led); err != nil {
			return err
		}
		leader, err := receive(ctx, "a leader", led)
		if err := errors.Join(err, expect("leader", leader, "first")); err != nil {
			return err
		}
		if err := runCandidate(second, s, "second", led); err != nil {
			return err
		}
		leases := s.clients.CoordinationV1().Leases(s.namespace)
		lease, err := leases.Get(ctx, "leader-lease", metav1.GetOptions{})
		if err := errors.Join(err, expect("holder", *lease.Spec.HolderIdentity, "first")); err != nil {
			return err
		}
		renewed := lease.Spec.RenewTime
		err = until(ctx, "the lease is renewed", func(ctx context.Context) (bool, error) {
			lease, err := leases.Get(ctx, "leader-lease", metav1.GetOptions{})
			return err == nil && lease.Spec.RenewTime.After(renewed.Time), err
		})
		if err != nil {
			return err
		}
		stepDown()
		leader, err = receive(ctx, "another leader", led)
		return errors.Join(err, expect("leader", leader, "second"))
	})
}

// runCandidate runs leader election as `name`, and sends the name to `led` when it leads.
func runCandidate(ctx context.Context, s *session, name string, led chan<- string) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, s.namespace, "leader-lease",
		s.clients.CoreV1(), s.clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   4 * time.Second,
		RenewDeadline:   3 * time.Second,
		RetryPeriod:     200 * time.Millisecond,
		ReleaseOnCancel: true,
		Name:            name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { led <- name },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("candidate %s: %w", name, err)
	}
	go elector.Run(ctx)
	return nil
}
