// Package sim runs controllers against API servers of its own, with faults: stale caches, events that are missed, late
// or in another order of kinds, writes that are refused, that conflict or whose response is lost, and processes that
// crash after a write and restart. A seed determines all of them and replays them.
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
// A controller runs as in production: a Process is a manager.Manager, with the controller's own watches, predicates,
// mappings and indexes, and with the code of controller-runtime that processes its queue. The layers below are
// simulated: the queue gives its single worker the request that the simulation has chosen, the cache shows a kind as it
// was after some number of its changes, and the client adds faults to operations. After a crash everything is created
// anew; the memory of the process is lost, and caches begin with the present, as those of client-go do.
//
// One step is one of these: a cache sees the next change of a kind, or several at once, of which it misses all but the
// last (a watch that broke); a controller works on one request; time passes; a change is made; an actor acts; a process
// crashes. After World.Overlap, changes also happen between the writes of a reconciliation. Steps follow one another in
// one goroutine. Time is that of a testing/synctest bubble, so nothing waits, and clocks are real ones. The fault of an
// operation depends on the seed, its name and the number of its earlier calls, so that parallel operations of a
// controller do not influence each other's faults. Each seed has its own mix of faults.
//
// A list that may be older than the newest data, but no older than a resource version, is answered from a watch cache
// of the API server, which may be some changes behind.
//
// Requests to other things than API servers, such as a cloud, get the same faults from Process.Call.
//
// A failed run shows its seed, the last steps and the command that replays it. HORTUS_TEST_SEED=N runs one seed and
// shows all steps; HORTUS_TEST_SEEDS=N tries more of them. The first seed runs twice and must do the same, so a
// controller that writes in the order of a map is found, too.
//
// The store of a cluster implements the behaviour that controllers rely on: resource versions and conflicts,
// generations, status apart from the rest, finalizers, server-side apply, patches, preconditions, namespaces that end
// after their content, garbage collection, and kinds that come and go with their definitions. It validates and defaults
// nothing.
package sim
