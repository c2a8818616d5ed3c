package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// patchesWatched is the number of patches, made one by one, so that an event waits only for its way through the
	// server.
	patchesWatched = 200
	// patchPause keeps the server idle between them.
	patchPause = 10 * time.Millisecond
	// eventTimeout bounds the wait for one event.
	eventTimeout = 10 * time.Second
	// sequenceAnnotation lets watchers recognize the event of a patch without decoding it.
	sequenceAnnotation = "bench.hortus.dev/sequence"
	// longestEvent bounds the size of an event.
	longestEvent = 4 << 20
)

// watch measures the time from sending a patch to the arrival of its event at each of many watchers.
func (b *apiBench) watch(ctx context.Context) error {
	b.Progress("%d Shoots: events for %d watchers", b.shoots, b.Watchers)
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := b.clients[0].read(ctx, b.workspace.shoots()+"?limit=1", &list); err != nil {
		return err
	}
	watchers, err := newJSONClients(b.measure, b.Watchers)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrivals := make(chan arrival, b.Watchers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // Before Wait, so that the watchers end.
	for _, w := range watchers {
		path := b.workspace.shoots() + "?watch=true&allowWatchBookmarks=false&resourceVersion=" +
			list.Metadata.ResourceVersion
		stream, err := w.start(ctx, http.MethodGet, path, "", nil)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		running.Go(func() {
			defer stream.Close()
			err := follow(bufio.NewReaderSize(stream, 64<<10), func(sequence int) {
				select {
				case arrivals <- arrival{sequence: sequence, at: time.Now()}:
				case <-ctx.Done():
				}
			})
			if ctx.Err() == nil {
				arrivals <- arrival{err: fmt.Errorf("watch ended: %w", err)}
			}
		})
	}
	before, err := b.used(ctx)
	if err != nil {
		return err
	}
	result, err := b.patchesToEvents(ctx, arrivals)
	if err != nil {
		return err
	}
	after, err := b.used(ctx)
	if err != nil {
		return err
	}
	b.add("event of a patch", result, after.CPU-before.CPU)
	return nil
}

type arrival struct {
	sequence int
	at       time.Time
	err      error
}

// patchesToEvents makes patches one by one and waits for each until all watchers have seen it.
func (b *apiBench) patchesToEvents(ctx context.Context, arrivals <-chan arrival) (outcome, error) {
	var result outcome
	begin := time.Now()
	for sequence := range patchesWatched {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, sequenceAnnotation, sequence)
		sent := time.Now()
		if _, err := b.clients[0].send(ctx, http.MethodPatch, b.shoot(shootName(sequence%b.shoots)), mergePatch,
			patch); err != nil {
			return result, fmt.Errorf("patch for an event: %w", err)
		}
		timeout := time.NewTimer(eventTimeout)
		for range b.Watchers {
			select {
			case a := <-arrivals:
				if a.err != nil {
					return result, a.err
				}
				if a.sequence != sequence {
					return result, fmt.Errorf("got event %d instead of %d", a.sequence, sequence)
				}
				result.durations = append(result.durations, a.at.Sub(sent))
			case <-timeout.C:
				return result, fmt.Errorf("event %d has not reached all watchers after %s", sequence, eventTimeout)
			case <-ctx.Done():
				return result, context.Cause(ctx)
			}
		}
		timeout.Stop()
		time.Sleep(patchPause)
	}
	result.elapsed = time.Since(begin)
	return result, nil
}

// follow reads events, one per line, and reports the sequence numbers in them. It ends with an error.
func follow(stream *bufio.Reader, saw func(sequence int)) error {
	for {
		line, err := readLine(stream)
		if err != nil {
			return err
		}
		if sequence, found := sequenceOf(line); found {
			saw(sequence)
		}
	}
}

func readLine(stream *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := stream.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(line) > longestEvent {
			return nil, fmt.Errorf("an event is longer than %d bytes", longestEvent)
		}
	}
}

// sequenceOf finds the annotation's value. managedFields name the annotation, too, but with a prefix.
func sequenceOf(event []byte) (int, bool) {
	_, rest, found := bytes.Cut(event, []byte(`"`+sequenceAnnotation+`":"`))
	if !found {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	sequence, err := strconv.Atoi(string(digits))
	return sequence, err == nil
}
