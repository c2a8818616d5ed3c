package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gocloud.dev/blob"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Claim takes ownership with the claim's epoch and returns the claim that is in the store: the given one, or the claim
// of the first holder. It also claims unclaimed epochs below, so that every owner detects a newer one by a look at the
// epoch after its own.
func (s *Store) Claim(ctx context.Context, c chain.Claim) (chain.Claim, error) {
	for epoch := int64(1); epoch <= c.Epoch; epoch++ {
		won, err := s.claim(ctx, epoch, c)
		if err != nil {
			return chain.Claim{}, err
		}
		if epoch < c.Epoch {
			continue
		}
		// Read it in any case: servers that ignore the condition let both writers believe that they have won.
		stored, err := s.ReadClaim(ctx, epoch)
		if err == nil && won && stored.Nonce != c.Nonce {
			err = &Error{Reason: Unsupported, Op: "claim epoch", Location: s.Location(),
				detail: "a conditional write was not honoured"}
		}
		return stored, err
	}
	return chain.Claim{}, fmt.Errorf("--epoch: invalid value: %d (at least 1)", c.Epoch)
}

func (s *Store) claim(ctx context.Context, epoch int64, c chain.Claim) (won bool, err error) {
	exists, err := s.Claimed(ctx, epoch)
	if err != nil || exists {
		return false, err
	}
	c.Epoch = epoch
	data, err := json.Marshal(c)
	if err != nil {
		return false, fmt.Errorf("encode claim: %w", err)
	}
	name := chain.ClaimName(epoch)
	op := fmt.Sprintf("claim epoch %d", epoch)
	if s.isFolder() {
		err = s.claimFile(name, op, data)
	} else {
		err = s.put(ctx, name, data, &blob.WriterOptions{ContentType: jsonType, IfNotExist: true}, op)
	}
	if ReasonOf(err) == Exists {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) isFolder() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.provider == File
}

// claimFile links a complete file to its name, which fails when the name exists. fileblob only checks before it
// renames, so that two processes could both succeed.
func (s *Store) claimFile(name, op string, data []byte) (err error) {
	s.mu.Lock()
	creds, sealed := s.creds, s.sealed
	s.mu.Unlock()
	if sealed != nil {
		return sealed
	}
	defer func() {
		if err != nil {
			err = explain(err, op, creds.location(File), creds, false)
		}
	}()
	final := filepath.Join(creds.folder(), filepath.FromSlash(s.prefix+name))
	if err := os.MkdirAll(filepath.Dir(final), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(final), "claim-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), final)
}

// Claimed reports whether an epoch was claimed. It costs one request.
func (s *Store) Claimed(ctx context.Context, epoch int64) (bool, error) {
	_, err := s.ReadClaim(ctx, epoch)
	if ReasonOf(err) == ObjectMissing {
		return false, nil
	}
	return err == nil, err
}

// ReadClaim returns the claim of an epoch.
func (s *Store) ReadClaim(ctx context.Context, epoch int64) (chain.Claim, error) {
	var c chain.Claim
	err := s.readJSON(ctx, chain.ClaimName(epoch), &c)
	if err == nil && c.Epoch != epoch {
		err = fmt.Errorf("claim of epoch %d in %s: invalid epoch: %d", epoch, s.Location(), c.Epoch)
	}
	return c, err
}

func (s *Store) readJSON(ctx context.Context, name string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxClaim))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s in %s: %w", name, s.Location(), err)
	}
	return nil
}

// verifiedName is the name of the object with the last verification.
const verifiedName = "verified"

// Verified is the full snapshot whose chain was verified last, or nil.
func (s *Store) Verified(ctx context.Context) (*Verification, error) {
	var v Verification
	if err := s.readJSON(ctx, verifiedName, &v); err != nil {
		if ReasonOf(err) == ObjectMissing {
			return nil, nil
		}
		return nil, err
	}
	return &v, nil
}

// SetVerified stores a verification.
func (s *Store) SetVerified(ctx context.Context, v Verification) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode verification: %w", err)
	}
	return s.put(ctx, verifiedName, data, &blob.WriterOptions{ContentType: jsonType}, "write "+verifiedName)
}
