package codec

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"runtime"

	jsonv2 "github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/api/meta"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// itemsPerPiece is how many items of a list are encoded one after the other: some 100 KB of Shoots.
const itemsPerPiece = 8

// writeList writes a list in pieces, which are encoded side by side: encoding is nearly all of the time that a list of
// Shoots takes. Besides the list no more than some pieces are in memory.
func writeList(list apiruntime.Object, w io.Writer) error {
	if items, ok := itemsOf(list); ok && items.Len() > itemsPerPiece {
		if head, ok := headOf(list); ok {
			return writeParts(w, head, items, []byte("]}\n"))
		}
	}
	if err := jsonv2.MarshalWrite(w, list, writeOptions); err != nil {
		return err
	}
	_, err := w.Write(newline)
	return err
}

func itemsOf(list apiruntime.Object) (reflect.Value, bool) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, false
	}
	value := reflect.ValueOf(items).Elem()
	return value, value.Kind() == reflect.Slice
}

// headOf returns what a list begins with, up to the first item, if items are what it ends with.
func headOf(list apiruntime.Object) ([]byte, bool) {
	empty := reflect.New(reflect.TypeOf(list).Elem())
	empty.Elem().Set(reflect.ValueOf(list).Elem())
	items, ok := itemsOf(empty.Interface().(apiruntime.Object))
	if !ok {
		return nil, false
	}
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	data, err := jsonv2.Marshal(empty.Interface(), writeOptions)
	if err != nil {
		return nil, false
	}
	if !bytes.HasSuffix(data, []byte(`"items":[]}`)) {
		return nil, false
	}
	return bytes.TrimSuffix(data, []byte("]}")), true
}

func writeParts(w io.Writer, head []byte, items reflect.Value, tail []byte) error {
	if _, err := w.Write(head); err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	for p := range pieces(items, stop) {
		if err := (<-p).write(w); err != nil {
			return err
		}
	}
	_, err := w.Write(tail)
	return err
}

// pieces hands out the pieces of a list in order. About as many as there are processors are being encoded. If they are
// stopped, those go on to their end, reading items, which nobody changes.
func pieces(items reflect.Value, stop <-chan struct{}) <-chan chan piece {
	queue := make(chan chan piece, runtime.GOMAXPROCS(0))
	go func() {
		defer close(queue)
		for begin := 0; begin < items.Len(); begin += itemsPerPiece {
			done := make(chan piece, 1)
			select {
			case queue <- done:
			case <-stop:
				return
			}
			go func() { done <- encodePiece(items, begin) }()
		}
	}()
	return queue
}

// piece is a part of a list.
type piece struct {
	buffer *bytes.Buffer
	// rest are items that were not encoded, because the others were so large.
	rest reflect.Value
	err  error
}

func encodePiece(items reflect.Value, begin int) (p piece) {
	p.buffer = buffers.Get().(*bytes.Buffer)
	defer func() { // The server recovers from panics in the goroutine of the request only.
		if r := recover(); r != nil {
			p.err = fmt.Errorf("encode items from the %dth on: %v", begin, r)
		}
	}()
	end := min(begin+itemsPerPiece, items.Len())
	for i := begin; i < end && p.err == nil; i++ {
		if p.buffer.Len() > maxKeptBytes {
			p.rest = items.Slice(i, end)
			return p
		}
		p.err = writeItem(p.buffer, items.Index(i), i == 0)
	}
	return p
}

func writeItem(w io.Writer, item reflect.Value, first bool) error {
	if !first {
		if _, err := w.Write([]byte(",")); err != nil {
			return err
		}
	}
	return jsonv2.MarshalWrite(w, item.Addr().Interface(), writeOptions)
}

func (p piece) write(w io.Writer) error {
	defer release(p.buffer)
	if p.err != nil {
		return p.err
	}
	if _, err := w.Write(p.buffer.Bytes()); err != nil || !p.rest.IsValid() {
		return err
	}
	for i := range p.rest.Len() {
		if err := writeItem(w, p.rest.Index(i), false); err != nil {
			return err
		}
	}
	return nil
}
