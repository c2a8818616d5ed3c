package clouddaemon

import (
	"slices"
	"strings"
	"time"

	api "hortus.dev/hortus/local/cloud"
)

// call holds the parts of a call that faults match: the operation, its caller, and the names, IDs, zones and types in
// it.
type call struct {
	operation string
	account   string
	targets   []string
}

// matches reports whether a fault strikes a call at a time.
func matches(f api.Fault, c call, now time.Time) bool {
	return active(f, now) &&
		(f.Operation == c.operation || f.Operation == "*") &&
		(f.Account == "" || f.Account == c.account) &&
		(f.Target == "" || slices.Contains(c.targets, f.Target))
}

// active reports whether a fault can still strike.
func active(f api.Fault, now time.Time) bool {
	return (f.Until.IsZero() || now.Before(f.Until)) && (f.Count == 0 || f.Struck < f.Count)
}

// instanceLost reports whether an instance has lost its hardware through a fault, and until when (zero: until deleted).
func instanceLost(faults []api.Fault, id, name, zone string, now time.Time) (lost bool, until time.Time) {
	for _, f := range faults {
		if f.Type == api.FaultLost && f.Operation == api.OperationInstance && active(f, now) &&
			(f.Target == "" || f.Target == id || f.Target == name || f.Target == zone) {
			return true, f.Until
		}
	}
	return false, time.Time{}
}

// faultError returns the error of a fault that refuses calls, nil for other faults.
func faultError(f api.Fault, c call) error {
	switch f.Type {
	case api.FaultUnauthorized:
		return api.Errorf(api.CodeUnauthorized, "Unauthorized: account %q may not call %s", c.account, c.operation)
	case api.FaultQuota:
		return api.Errorf(api.CodeQuotaExceeded, "Quota exceeded for account %q in %s", c.account, c.operation)
	case api.FaultRateLimit:
		return api.Errorf(api.CodeRateLimited, "request rate of account %q is too high for %s, slow down", c.account,
			c.operation)
	case api.FaultDepleted:
		return api.Errorf(api.CodeDepleted, "there is not enough capacity for %s at the moment", c.operation)
	case api.FaultDependency:
		return api.Errorf(api.CodeDependency, "%s is blocked by an object that depends on it", c.operation)
	case api.FaultBusy:
		return api.Errorf(api.CodeBusy, "%s has to wait for another operation that is still in progress", c.operation)
	default:
		return nil
	}
}

// faultTypes are those that a fault may have.
var faultTypes = []api.FaultType{
	api.FaultUnauthorized, api.FaultQuota, api.FaultRateLimit, api.FaultDepleted, api.FaultDependency, api.FaultBusy,
	api.FaultSlow, api.FaultLost, api.FaultBuilding,
}

// validateFault checks a fault and fills in its defaults.
func validateFault(f api.Fault, now time.Time) (api.Fault, error) {
	if !slices.Contains(faultTypes, f.Type) {
		var allowed []string
		for _, t := range faultTypes {
			allowed = append(allowed, string(t))
		}
		return f, api.Errorf(api.CodeInvalid, "type: unsupported value: %q (%s)", f.Type, strings.Join(allowed, ", "))
	}
	if f.Operation == "" {
		return f, api.Errorf(api.CodeInvalid, "operation: required (an operation, or * for all)")
	}
	if f.Operation == api.OperationInstance && f.Type != api.FaultLost {
		return f, api.Errorf(api.CodeInvalid, "operation: invalid value: %s (only with type %s)", api.OperationInstance,
			api.FaultLost)
	}
	if f.Type == api.FaultBuilding && f.Operation != operationPrepareImage {
		return f, api.Errorf(api.CodeInvalid, "operation: invalid value: %s (with type %s only %s)", f.Operation,
			api.FaultBuilding, operationPrepareImage)
	}
	if f.Count < 0 || f.DurationSeconds < 0 || f.DelaySeconds < 0 {
		return f, api.Errorf(api.CodeInvalid, "count, durationSeconds, delaySeconds: invalid value: %d, %v, %v (at least 0)",
			f.Count, f.DurationSeconds, f.DelaySeconds)
	}
	if f.Name == "" {
		f.Name = string(f.Type) + "-" + f.Operation
	}
	if f.Type == api.FaultSlow && f.DelaySeconds == 0 {
		f.DelaySeconds = 5
	}
	f.Struck, f.Until = 0, time.Time{}
	if f.DurationSeconds > 0 {
		f.Until = now.Add(time.Duration(f.DurationSeconds) * time.Second)
	}
	return f, nil
}

// strike returns the fault that matches a call, if any, and counts the match. Faults that have reached their count are
// removed.
func (c *Cloud) strike(in call) (api.Fault, bool, error) {
	var hit api.Fault
	var found bool
	now := c.clock.Now()
	c.store.view(func() {
		for _, f := range c.store.faults.rows {
			found = found || matches(f.Fault, in, now)
		}
	})
	if !found { // The usual case, without a write.
		return hit, false, nil
	}
	found = false
	err := c.store.update(func(tx *tx) error {
		for _, f := range c.store.faults.sorted(nil) {
			if !matches(f.Fault, in, now) {
				continue
			}
			f.Struck++
			hit, found = f.Fault, true
			if active(f.Fault, now) {
				c.store.faults.put(tx, f.Name, f)
			} else {
				c.store.faults.remove(tx, f.Name)
			}
			return nil
		}
		return nil
	})
	return hit, found, err
}

func (c *Cloud) setFault(f api.Fault) (*api.Fault, error) {
	f, err := validateFault(f, c.clock.Now())
	if err != nil {
		return nil, err
	}
	err = c.store.update(func(tx *tx) error {
		c.store.faults.put(tx, f.Name, fault{f})
		return nil
	})
	c.enqueueLost(f)
	return &f, err
}

func (c *Cloud) listFaults() []api.Fault {
	now := c.clock.Now()
	var out []api.Fault
	c.store.view(func() {
		for _, f := range c.store.faults.sorted(func(f fault) bool { return active(f.Fault, now) }) {
			out = append(out, f.Fault)
		}
	})
	return out
}

func (c *Cloud) deleteFault(name string) error {
	var gone api.Fault
	err := c.store.update(func(tx *tx) error {
		f, ok := c.store.faults.get(name)
		if !ok {
			return api.Errorf(api.CodeNotFound, "fault: not found: %q", name)
		}
		gone = f.Fault
		c.store.faults.remove(tx, name)
		return nil
	})
	c.enqueueLost(gone)
	return err
}

// enqueueLost enqueues all objects after a fault of the operation Instance was set or has ended.
func (c *Cloud) enqueueLost(f api.Fault) {
	if f.Operation == api.OperationInstance {
		c.enqueueAll()
	}
}
