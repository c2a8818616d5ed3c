//go:build landscape

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"hortus.dev/hortus/test/linear"
)

const (
	// registerClients is the number of clients that use the registers of a Shoot concurrently, each with a request every
	// registerPeriod.
	registerClients = 3
	registerPeriod  = 100 * time.Millisecond
	// checkLimit bounds the check of a history, which takes seconds.
	checkLimit = 5 * time.Minute
)

// registerKeys are the ConfigMaps that are read and written.
var registerKeys = []string{"register-a", "register-b", "register-c"}

// registers are clients of a Shoot that read and write the same ConfigMaps all the time. The responses have to be
// linearizable.
type registers struct {
	history *linear.History
	// last reads the final values.
	last *linear.Client
	stop context.CancelFunc
	done sync.WaitGroup
}

// startRegisters starts clients of the Shoot of a kubeconfig file. They stop with the test at the latest.
func startRegisters(t *testing.T, kubeconfig string) *registers {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &registers{history: linear.NewHistory(), stop: cancel}
	client := func(number int) *linear.Client {
		return &linear.Client{
			Number: number, Config: config, Dial: dialByName(config.ServerName), Namespace: "default", Timeout: writeTimeout,
			History: r.history,
		}
	}
	r.last = client(registerClients)
	for number := range registerClients {
		one := client(number)
		r.done.Go(func() {
			ticker := time.NewTicker(registerPeriod)
			defer ticker.Stop()
			one.Run(ctx, registerKeys, ticker.C)
		})
	}
	t.Cleanup(r.end)
	return r
}

func (r *registers) end() {
	r.stop()
	r.done.Wait()
}

// check ends the clients, reads every register once more, and fails if the history is not linearizable. It stores such
// a history.
func (r *registers) check(t *testing.T) {
	t.Helper()
	r.end()
	for _, key := range registerKeys {
		eventually(t, "a last read of "+key, func() error {
			if o := r.last.Read(t.Context(), key); o.Outcome != linear.Done {
				return fmt.Errorf("%s", o.Reason)
			}
			return nil
		})
	}
	start := time.Now()
	err := r.history.Check(checkLimit)
	t.Logf("history of %d operations with an answer, %d refused, %d of unknown outcome, checked in %s",
		r.history.Count(linear.Done),
		r.history.Count(linear.Refused), r.history.Count(linear.Unknown), time.Since(start).Round(time.Millisecond))
	if err == nil {
		return
	}
	t.Error(err)
	file, err := os.CreateTemp("", "hortus-history-*.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := &strings.Builder{}
	for _, o := range r.history.Operations() {
		fmt.Fprintf(text, "%s  %s\n", o.Key, o)
	}
	if _, err := file.WriteString(text.String()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the whole history is in %s", file.Name())
}
