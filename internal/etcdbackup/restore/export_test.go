package restore

// StopAt makes a restore fail before a step, as a crash there would.
func (o *Options) StopAt(stop func(step string) error) { o.stop = stop }
