package store

import (
	"context"
	"errors"
	"os"

	"gocloud.dev/blob"
	"k8s.io/utils/clock"
)

// Upload is an object that is being written.
type Upload struct {
	op      string
	explain func(error, string, bool) error
	cancel  context.CancelFunc
	stall   clock.Timer
	store   *Store
	writer  *blob.Writer
	file    *os.File
}

// beforeWrite records the file of a local folder.
func (u *Upload) beforeWrite(as func(any) bool) error {
	as(&u.file)
	return nil
}

// Write adds data.
func (u *Upload) Write(p []byte) (int, error) {
	n, err := u.writer.Write(p)
	if err != nil {
		return n, u.explain(err, u.op, false)
	}
	u.stall.Reset(stallTimeout)
	return n, nil
}

// Close completes the object. After an error it does not exist, or is unchanged.
func (u *Upload) Close() error {
	defer u.end()
	u.store.mu.Lock()
	sealed := u.store.sealed
	u.store.mu.Unlock()
	if sealed != nil {
		u.Abort()
		return sealed
	}
	if u.file != nil {
		if err := u.file.Sync(); err != nil { // A rename without it may survive a power failure that the data does not.
			u.Abort()
			return u.explain(err, u.op, false)
		}
	}
	if err := u.writer.Close(); err != nil {
		return u.explain(err, u.op, false)
	}
	return nil
}

// Abort aborts the upload.
func (u *Upload) Abort() {
	u.end()
	_ = u.writer.Close() // Removes what was sent, since the context has ended.
}

func (u *Upload) end() {
	u.stall.Stop()
	u.cancel()
}

// download is an object that is being read.
type download struct {
	op      string
	explain func(error, string, bool) error
	cancel  context.CancelFunc
	stall   clock.Timer
	reader  *blob.Reader
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.reader.Read(p)
	switch {
	case err == nil:
		d.stall.Reset(stallTimeout)
	case !isEOF(err):
		err = d.explain(err, d.op, false)
	}
	return n, err
}

func (d *download) Close() error {
	d.stall.Stop()
	d.cancel()
	return d.reader.Close()
}

// errors.Is(err, io.EOF) would also match EOFs deep inside of transport errors.
func isEOF(err error) bool {
	return err != nil && err.Error() == "EOF" && errors.Unwrap(err) == nil
}
