package relay

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pair returns the two ends of one TCP connection over loopback.
func pair(t *testing.T) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func TestBothKeepsHalfClose(t *testing.T) {
	client, clientEnd := pair(t)
	server, serverEnd := pair(t)
	done := make(chan [2]int64, 1)
	go func() {
		toB, toA := Both(clientEnd, serverEnd)
		done <- [2]int64{toB, toA}
	}()

	question, answer := bytes.Repeat([]byte("q"), 100_000), bytes.Repeat([]byte("a"), 300_000)
	if _, err := client.Write(question); err != nil {
		t.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(server) // Ends only if the half close has arrived.
	if err != nil || !bytes.Equal(got, question) {
		t.Fatalf("server read %d bytes, error %v; want %d", len(got), err, len(question))
	}
	go func() { _, _ = server.Write(answer); _ = server.Close() }()
	got, err = io.ReadAll(client)
	if err != nil || !bytes.Equal(got, answer) {
		t.Fatalf("client read %d bytes, error %v; want %d", len(got), err, len(answer))
	}
	if n := <-done; n != [2]int64{int64(len(question)), int64(len(answer))} {
		t.Errorf("Both() = %v, want the sizes of question and answer", n)
	}
}

func TestBothEndsWhenOneSideBreaks(t *testing.T) {
	client, clientEnd := pair(t)
	_, serverEnd := pair(t) // The server neither reads nor closes.
	done := make(chan struct{})
	go func() { Both(clientEnd, serverEnd); close(done) }()
	_ = client.SetLinger(0) // The close sends a reset.
	client.Close()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Both() still runs after a connection was reset")
	}
}

func TestWithPrefixPutsBytesBack(t *testing.T) {
	a, b := pair(t)
	go func() { _, _ = a.Write([]byte("world")); a.Close() }()
	got, err := io.ReadAll(WithPrefix(b, []byte("hello ")))
	if err != nil || string(got) != "hello world" {
		t.Errorf("read %q, error %v; want %q", got, err, "hello world")
	}
}

func TestLimitsKeepHalfClose(t *testing.T) {
	client, clientEnd := pair(t)
	server, serverEnd := pair(t)
	done := make(chan [2]int64, 1)
	go func() {
		toB, toA := Limits{Idle: time.Hour, Write: time.Hour}.Both(clientEnd, serverEnd)
		done <- [2]int64{toB, toA}
	}()
	question, answer := bytes.Repeat([]byte("q"), 100_000), bytes.Repeat([]byte("a"), 300_000)
	go func() { _, _ = client.Write(question); _ = client.CloseWrite() }()
	if got, err := io.ReadAll(server); err != nil || !bytes.Equal(got, question) {
		t.Fatalf("server read %d bytes, error %v; want %d", len(got), err, len(question))
	}
	go func() { _, _ = server.Write(answer); _ = server.Close() }()
	if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, answer) {
		t.Fatalf("client read %d bytes, error %v; want %d", len(got), err, len(answer))
	}
	if n := <-done; n != [2]int64{int64(len(question)), int64(len(answer))} {
		t.Errorf("Both() = %v, want the sizes of question and answer", n)
	}
}

// Bytes in either direction keep a connection open; without any it is closed.
func TestIdleConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, clientEnd := net.Pipe()
		server, serverEnd := net.Pipe()
		start := time.Now()
		done := make(chan time.Duration, 1)
		go func() {
			Limits{Idle: time.Hour}.Both(clientEnd, serverEnd)
			done <- time.Since(start)
		}()
		for i, from := range []net.Conn{client, server, client} {
			time.Sleep(59 * time.Minute)
			to := map[net.Conn]net.Conn{client: server, server: client}[from]
			go func() { _, _ = from.Write([]byte{1}) }()
			if _, err := io.ReadFull(to, make([]byte, 1)); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		if got, want := <-done, 3*59*time.Minute+time.Hour; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
	})
}

// Once one side has ended, an idle other side is closed sooner; its bytes keep the connection open.
func TestSilentHalfOpenConnectionEnds(t *testing.T) {
	client, clientEnd := pair(t)
	server, serverEnd := pair(t)
	done := make(chan struct{})
	go func() {
		Limits{Idle: time.Hour, HalfOpen: 20 * time.Millisecond}.Both(clientEnd, serverEnd)
		close(done)
	}()
	if _, err := server.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	select { // The server neither responds nor closes.
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Both() still runs")
	}
}

// A connection to a side that does not read is closed, however much the other sends.
func TestStuckPeerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, clientEnd := net.Pipe()
		server, serverEnd := net.Pipe()
		defer server.Close()
		start := time.Now()
		go func() { _, _ = client.Write(make([]byte, 1<<20)) }()
		toB, _ := Limits{Idle: time.Hour, Write: time.Minute}.Both(clientEnd, serverEnd)
		if got := time.Since(start); got != time.Minute || toB != 0 {
			t.Errorf("ended after %v and %d bytes, want a minute and none", got, toB)
		}
	})
}
