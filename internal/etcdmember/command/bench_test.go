package command

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/test/leaks"
)

var megabytes = flag.Int("megabytes", 100, "how much BenchmarkRestore stores in etcd, in MB of values")

// asProcess makes this test binary run the program, so that its memory can be measured.
const asProcess = "HORTUS_ETCD_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) == "" {
		leaks.Main(m)
	}
	cmd, _ := newRunCommand()
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// BenchmarkRestore measures the time to save a whole database and to restore it after the loss of the volume, and the
// anonymous memory that the process needs for that.
func BenchmarkRestore(b *testing.B) {
	for range b.N {
		s := newSeed(b, b.TempDir())
		r, memory := s.start(b)
		r.awaitState(etcdbackup.EtcdRunning)
		r.fill(*megabytes)
		r.await("backups are taken", func(st etcdbackup.Status) bool { return st.Phase == etcdbackup.PhaseActive })
		memory.Store(0)
		start := time.Now()
		if _, err := r.service.Snapshot(context.Background(), chain.Full); err != nil {
			b.Fatal(err)
		}
		saved, savedWith := time.Since(start), memory.Load()
		last := r.last()
		r.stop()
		if err := os.RemoveAll(filepath.Join(s.volume, "etcd")); err != nil {
			b.Fatal(err)
		}

		start = time.Now()
		r, memory = s.start(b)
		r.awaitLong(etcdbackup.EtcdRunning)
		restored := time.Since(start)
		if got := r.last(); got != last {
			b.Fatalf("the last value is %q after the restore, want %q", got, last)
		}
		restoredWith := memory.Load()
		r.stop()
		hundreds := float64(*megabytes) / 100
		b.ReportMetric(saved.Seconds()/hundreds, "s-saved/100MB")
		b.ReportMetric(float64(savedWith)/1e6, "MB-memory-saved")
		b.ReportMetric(restored.Seconds()/hundreds, "s-restored/100MB")
		b.ReportMetric(float64(restoredWith)/1e6, "MB-memory-restored")
		b.ReportMetric(0, "ns/op") // Only a part of a run is measured.
	}
}

// start runs this program as a separate process. memory is the maximum of its anonymous memory, in bytes.
func (s *seed) start(b *testing.B) (r *running, memory *atomic.Int64) {
	b.Helper()
	at := newAddresses(b)
	flags, args := s.commandLine(at, "--epoch=1", "--holder=a", "--full-schedule=0 0 1 1 *")
	program := exec.Command(os.Args[0],
		append(append(flags, "--"), append(args, "--quota-backend-bytes="+strconv.Itoa(8<<30))...)...)
	program.Env = append(os.Environ(), asProcess+"=1")
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := program.Start(); err != nil {
		b.Fatal(err)
	}
	memory = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				memory.Store(max(memory.Load(), anonymous(program.Process.Pid)))
			}
		}
	}()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = program.Process.Signal(syscall.SIGTERM)
		_ = program.Wait()
		close(done)
	}
	b.Cleanup(stop)
	return s.reach(at, stop), memory
}

// anonymous is the memory of a process that is not backed by files, in bytes; 0 if it is not known.
func anonymous(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// fill writes values of 2 KB each, like objects of Kubernetes, that are hard to compress.
func (r *running) fill(megabytes int) {
	r.t.Helper()
	const size, batch = 2000, 50
	random, value := rand.New(rand.NewPCG(1, 2)), make([]byte, size)
	for n := 0; n < megabytes*1_000_000/size; {
		var puts []clientv3.Op
		for range batch {
			for i := 0; i+8 <= size; i += 8 {
				binary.LittleEndian.PutUint64(value[i:], random.Uint64())
			}
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/configmaps/default/%08d", n), string(value)))
			n++
		}
		if _, err := r.etcd.Txn(context.Background()).Then(puts...).Commit(); err != nil {
			r.t.Fatalf("fill etcd: %v", err)
		}
	}
}

// last is the value of the last key.
func (r *running) last() string {
	r.t.Helper()
	got, err := r.etcd.Get(context.Background(), "/registry/", append(clientv3.WithLastKey(), clientv3.WithPrefix())...)
	if err != nil || len(got.Kvs) != 1 {
		r.t.Fatalf("read etcd: %v", err)
	}
	return string(got.Kvs[0].Key) + string(got.Kvs[0].Value)
}

// awaitLong waits for a state, as long as a restore of a large database may take.
func (r *running) awaitLong(state etcdbackup.EtcdState) {
	r.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if s, err := r.service.Status(context.Background()); err == nil && s.Etcd.State == state {
			return
		}
	}
	r.t.Fatal("etcd was not restored within 10 minutes")
}
