package component

import "time"

// How controllers of Kubernetes in a control plane elect their leader. They have one replica, so that an election costs
// more often than it helps.
const (
	// ElectionLeaseDuration is how long a Lease is respected that is not renewed. The default of 15 s is doubled, so that
	// it is longer than the deadline.
	ElectionLeaseDuration = 30 * time.Second
	// ElectionRenewDeadline is how long a leader tries to renew its Lease before it ends. With the default of 10 s, it
	// would have two attempts, and a host that is short of time for a few seconds would have to restart all controllers.
	ElectionRenewDeadline = 20 * time.Second
	// ElectionRetryPeriod is how often leaders renew their Lease, and others look whether it is free. Each renewal is a
	// write to etcd: with the default of 2 s, they are three quarters of the requests of an idle control plane.
	ElectionRetryPeriod = 5 * time.Second
)
