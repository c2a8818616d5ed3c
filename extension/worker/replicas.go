package worker

// scale is what decides the number of machines of one MachineDeployment.
type scale struct {
	min, max   int32
	hibernated bool
	autoscaled bool   // Some pool of the Worker has min < max, so an autoscaler runs.
	waking     bool   // All MachineDeployments are at zero, but the Shoot is awake.
	current    *int32 // Nil if the MachineDeployment does not exist.
	restored   *int32 // From the state of another seed; nil otherwise.
}

// replicas returns the number of machines wanted. The first rule that matches decides; the last one leaves the number
// to the autoscaler.
func (s scale) replicas() int32 {
	switch {
	case s.hibernated:
		return 0
	case !s.autoscaled:
		return s.min
	case s.current == nil && s.restored != nil:
		return *s.restored
	case s.current == nil, s.waking:
		return s.min
	case *s.current < s.min:
		return s.min
	case *s.current > s.max:
		return s.max
	default:
		return *s.current
	}
}
