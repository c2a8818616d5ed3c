// Package test checks the histories of clients of a real API server.
package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"hortus.dev/hortus/test/env"
	"hortus.dev/hortus/test/linear"
)

// TestClientsOfKubernetes has clients use a real API server, which is replaced by another one meanwhile.
func TestClientsOfKubernetes(t *testing.T) {
	etcd := env.Etcd(t)
	server := env.StartKubeAPIServer(t, etcd, nil)
	history := linear.NewHistory()
	run := func(numbers []int, while func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for _, number := range numbers {
			client := &linear.Client{
				Number: number, Config: server.Config, Namespace: "default", Timeout: time.Minute, History: history,
			}
			ticks := make(chan time.Time)
			clients.Go(func() { client.Run(ctx, []string{"a", "b"}, ticks) })
			go func() { // As fast as the client can.
				for {
					select {
					case <-ctx.Done():
						return
					case ticks <- time.Time{}:
					}
				}
			}()
		}
		while()
		cancel()
		clients.Wait()
	}
	await := func(outcome linear.Outcome, n int) {
		for ticker := time.NewTicker(10 * time.Millisecond); history.Count(outcome) < n; <-ticker.C {
			if t.Context().Err() != nil {
				t.Fatal("the test has ended")
			}
		}
	}
	run([]int{0, 1, 2}, func() {
		await(linear.Done, 300)
		refused := history.Count(linear.Refused)
		server.Stop(t)
		await(linear.Refused, refused+10)
	})
	server = env.StartKubeAPIServer(t, etcd, nil)
	run([]int{3, 4}, func() { await(linear.Done, history.Count(linear.Done)+200) })

	t.Logf("%d done, %d refused, %d unknown", history.Count(linear.Done), history.Count(linear.Refused),
		history.Count(linear.Unknown))
	if err := history.Check(time.Minute); err != nil {
		t.Error(err)
	}
	kinds := map[string]int{}
	for _, o := range history.Operations() {
		if o.Outcome == linear.Done {
			kinds[fmt.Sprint(o.Kind, o.Value != "")]++
		}
	}
	for _, kind := range []linear.Kind{linear.Read, linear.Write, linear.Swap} {
		if kinds[fmt.Sprint(kind, true)] < 20 {
			t.Errorf("operations that were done: %v, want more of kind %d", kinds, kind)
		}
	}
}
