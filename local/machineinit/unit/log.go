package unit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// maxLogBytes is the size at which a log is moved to <name>.1 when its unit starts. Two files of this size per unit
// are a small part of the smallest machine's disk.
const maxLogBytes = 16 << 20

// maxConsoleLine bounds the memory for a line without end.
const maxConsoleLine = 64 << 10

// logs hands out the files units write to.
type logs struct {
	dir     string
	console io.Writer // Nil for none.
	mu      sync.Mutex
}

// open returns the file a unit's processes get as output; the caller closes it once they have started. Without a
// console it is the log itself, so that processes can outlive the supervisor; with one it is a pipe that is copied to
// both.
func (l *logs) open(unit string) (*os.File, error) {
	path := filepath.Join(l.dir, strings.TrimSuffix(unit, ".service")+".log")
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Size() > maxLogBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("rotate log of %s: %w", unit, err)
		}
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", unit, err)
	}
	if l.console == nil {
		return file, nil
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make log pipe of %s: %w", unit, err), file.Close())
	}
	go l.copy(strings.TrimSuffix(unit, ".service"), reader, file)
	return writer, nil
}

// copy ends when the last process that holds the other end of the pipe has ended.
func (l *logs) copy(prefix string, from, to *os.File) {
	defer from.Close()
	defer to.Close()
	lines := bufio.NewReaderSize(from, maxConsoleLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			// A full disk or a lost console must not stop the unit, whose writes would block: read on.
			_, _ = to.Write(line)
			l.mu.Lock()
			_, _ = fmt.Fprintf(l.console, "%s: %s\n", prefix, strings.TrimRight(string(line), "\r\n"))
			l.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}
