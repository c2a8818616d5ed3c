package clouddaemon_test

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
)

func TestFaults(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	for _, tc := range []struct {
		fault cloud.Fault
		code  cloud.Code
	}{
		{cloud.Fault{Type: cloud.FaultUnauthorized}, cloud.CodeUnauthorized},
		{cloud.Fault{Type: cloud.FaultQuota}, cloud.CodeQuotaExceeded},
		{cloud.Fault{Type: cloud.FaultRateLimit}, cloud.CodeRateLimited},
		{cloud.Fault{Type: cloud.FaultDepleted}, cloud.CodeDepleted},
		{cloud.Fault{Type: cloud.FaultDependency}, cloud.CodeDependency},
		{cloud.Fault{Type: cloud.FaultBusy}, cloud.CodeBusy},
		{cloud.Fault{Type: cloud.FaultLost}, cloud.CodeUnavailable},
	} {
		t.Run(string(tc.fault.Type), func(t *testing.T) {
			tc.fault.Operation, tc.fault.Count = "CreateNetwork", 1
			if _, err := c.Client.SetFault(t.Context(), tc.fault); err != nil {
				t.Fatal(err)
			}
			name := "n-" + string(tc.fault.Type)
			_, err := c.Client.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: name})
			expectCode(t, err, tc.code)
			list, err := c.Client.ListNetworks(t.Context(), cloud.Filter{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if done := len(list) == 1; done != (tc.fault.Type == cloud.FaultLost) {
				t.Errorf("operation carried out = %v", done)
			}
			if _, err := c.Client.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: name}); err != nil {
				t.Errorf("after the fault: %v", err)
			}
		})
	}
}

func TestLostHardware(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "")
	a := createInstance(t, c.Client, cloud.CreateInstance{Name: "a", NetworkID: network})
	b := createInstance(t, c.Client, cloud.CreateInstance{Name: "b", NetworkID: network})
	c.Eventually(t, "both run", func() bool {
		return stateOf(t, c.Client, a.ID) == cloud.StateRunning && stateOf(t, c.Client, b.ID) == cloud.StateRunning
	})
	if _, err := c.Client.SetFault(t.Context(),
		cloud.Fault{Name: "f", Type: cloud.FaultLost, Operation: cloud.OperationInstance, Target: a.ID}); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "a is lost", func() bool { return stateOf(t, c.Client, a.ID) == cloud.StateLost })
	if got := stateOf(t, c.Client, b.ID); got != cloud.StateRunning {
		t.Errorf("b is %s, want it unchanged", got)
	}
	if err := c.Client.DeleteFault(t.Context(), "f"); err != nil {
		t.Fatal(err)
	}
	c.Eventually(t, "a is back", func() bool { return stateOf(t, c.Client, a.ID) == cloud.StateRunning })
}

func TestFaultsEndWithTime(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now()) // New certificates must be valid.
	c := cloudtest.Start(t, cloudtest.Options{Clock: clock})
	if _, err := c.Client.SetFault(t.Context(),
		cloud.Fault{Type: cloud.FaultRateLimit, Operation: "*", DurationSeconds: 60}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Client.ListNetworks(t.Context(), cloud.Filter{})
	expectCode(t, err, cloud.CodeRateLimited)
	clock.Step(time.Minute)
	if _, err := c.Client.ListNetworks(t.Context(), cloud.Filter{}); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	if faults, err := c.Client.ListFaults(t.Context()); err != nil || len(faults) != 0 {
		t.Errorf("ListFaults() = %v, %v, want none", faults, err)
	}
}
