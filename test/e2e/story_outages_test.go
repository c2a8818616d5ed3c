//go:build landscape

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fenceTime of the landscape's gardenlets.
const fenceTime = 2 * time.Minute

// outageGap bounds the time in which no write is acknowledged during an outage that stops no control plane: the time
// that a busy machine may need for one write.
const outageGap = 10 * time.Second

// TestOutagesStopNoControlPlane makes the garden, the cloud with its buckets, or both unreachable for a seed, while a
// client writes. Etcd stops only after both have been unreachable for the fence time, and starts again automatically.
func TestOutagesStopNoControlPlane(t *testing.T) {
	story(t, bothSeeds)
	const name, seed, instance = "hermit", "local-2", "seed-2"
	applyShootOn(t, "shoot-workerless.yaml", name, seed)
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	id, _, _ := strings.Cut(instanceOf(t, instance), ",")
	w := startWriter(t, kubeconfig)
	const longer = fenceTime + 15*time.Second

	w.during(t, "an outage of the garden", outageGap, func() {
		heal := cutOff(t, networkOf(id), gardenAddress)
		awaitSilence(t, seed, longer)
		heal()
		awaitReturn(t, seed, time.Now())
	})
	w.during(t, "an outage of the cloud and its buckets", outageGap, func() {
		heal := cutOff(t, networkOf(id), cloudAddress)
		outage(t, longer)
		heal()
		awaitBackup(t, name)
	})
	w.during(t, "a short outage of both", outageGap, func() {
		heal := cutOff(t, networkOf(id), gardenAddress, cloudAddress)
		awaitSilence(t, seed, fenceTime/2)
		heal()
		awaitReturn(t, seed, time.Now())
		awaitBackup(t, name)
	})

	heal := cutOff(t, networkOf(id), gardenAddress, cloudAddress)
	start := time.Now()
	eventually(t, "an etcd that stops after the fence time", func() error {
		if silent := w.silent(); silent < 15*time.Second {
			return fmt.Errorf("the last write was acknowledged %s ago", silent)
		}
		return nil
	})
	if stopped := time.Since(start) - w.silent(); stopped < fenceTime/2 {
		t.Errorf("etcd stopped after %s", stopped)
	} else {
		t.Logf("etcd stopped %s after it had lost garden and bucket", stopped.Round(100*time.Millisecond))
	}
	heal()
	w.awaitMore(t, 10)
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
	awaitSucceeded(t, name)
}

// awaitSilence waits until a seed's Lease in the garden has not been renewed for the given time.
func awaitSilence(t *testing.T, seed string, atLeast time.Duration) {
	t.Helper()
	eventually(t, "a silent seed", func() error {
		if silent := silenceOf(t, seed); silent < atLeast {
			return fmt.Errorf("its Lease was renewed %s ago", silent)
		}
		return nil
	})
}

// longestReturn is how long a seed that can reach its garden again may need to renew its Lease there. The pauses of its
// gardenlet between attempts are at most half of it.
const longestReturn = 30 * time.Second

// awaitReturn waits until a seed renews its Lease in the garden again and is Ready, and compares the time of the
// renewal with that at which the outage ended.
func awaitReturn(t *testing.T, seed string, healed time.Time) {
	t.Helper()
	eventually(t, "a renewed Lease of the seed", func() error {
		renewed := renewalOf(t, seed)
		if renewed.Before(healed) {
			return fmt.Errorf("its Lease was renewed at %s, before the end of the outage at %s", renewed, healed)
		}
		if after := renewed.Sub(healed); after > longestReturn {
			t.Errorf("seed %s renewed its Lease %s after the end of the outage, want at most %s", seed, after, longestReturn)
		}
		return nil
	})
	kubectl(t, kubeconfigOf("garden"), "wait", "--for=condition=GardenletReady", "seed", seed, withPatience)
}

// awaitBackup waits until a backup can be taken: requests that failed during an outage are retried only after a while.
func awaitBackup(t *testing.T, name string) {
	t.Helper()
	eventually(t, "a backup", func() error {
		out, err := run(t, filepath.Join(repository, ".build", "hortus"), "backup", "now", name, "-n", projectNS)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// outage lets a fault last.
func outage(t *testing.T, length time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(length): // Real time: the fault lasts.
	}
}
