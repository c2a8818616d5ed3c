package worker

// replicas returns the number of machines wanted of one MachineDeployment. There is no cluster autoscaler, which would
// choose a number between minimum and maximum.
func replicas(minimum int32, hibernated bool) int32 {
	if hibernated {
		return 0
	}
	return minimum
}
