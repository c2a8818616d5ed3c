package relay

import (
	"bytes"
	"io"
	"net"
	"testing"
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
	got, err := io.ReadAll(server) // Ends only if the half close came through.
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
	_ = client.SetLinger(0) // Close with a reset.
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
