// Package sim runs controllers against API servers of its own, with faults: caches that are stale, events that are
// missed or come late and in another order of kinds, writes that are refused, whose answer is lost or that somebody
// else has forestalled, and processes that crash after a write and start again. A seed chooses them all and replays
// them.
//
//	sim.Run(t, func(w *sim.World) {
//		garden := w.Cluster("garden", sim.Scheme())
//		w.Process("controller-manager", garden, func(p *sim.Process) error {
//			return (&project.Reconciler{Garden: p.GetClient(), ...}).SetupWithManager(p)
//		})
//		w.Change("make a project", garden, ...)                      // Once, while faults happen.
//		w.Actor("the extension is done", garden, ...)                // Again and again.
//		w.Always("a namespace with Shoots stays", func() error {...}) // Safety: holds after each write.
//		w.Faults(150)
//		w.Eventually(200, "the project is ready", func() error {...}) // Liveness: without faults, within 200 requests.
//	})
//
// A controller runs as in production: a Process is a manager.Manager, so the watches, predicates, mappings and indexes
// are those of the controller, and so is the code of controller-runtime that works off its queue. What differs is
// below: the queue hands its single worker what the simulation has chosen, the cache shows a kind as it was after some
// number of its changes, and the client passes each operation through the faults. After a crash all of it is made
// anew; what was in memory is lost, and caches begin with the present, as those of client-go do.
//
// One step is one of these: a cache sees the next change of a kind, or several at once, of which it misses all but the
// last (a watch that broke); a controller works on one request; time passes; a change is made; an actor acts; a
// process crashes. Steps follow one another in one goroutine. Time is that of a testing/synctest bubble, so nothing
// waits, and clocks are real ones. What becomes of an operation depends on the seed, its name and how often it came
// before, so that operations that a controller does in parallel don't change each other's fate. Each seed has its own
// mix of faults.
//
// A run that fails shows its seed, the last steps and the command that replays it. HORTUS_TEST_SEED=N runs one seed
// and shows all steps; HORTUS_TEST_SEEDS=N tries more of them. The first seed runs twice and must do the same, so a
// controller that writes in the order of a map is found, too.
//
// The store of a cluster does what controllers rely on: resource versions and conflicts, generations, status apart
// from the rest, finalizers, server-side apply, patches, preconditions, namespaces that end after their content, and
// garbage collection. It validates and defaults nothing.
package sim
