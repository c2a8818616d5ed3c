package codec

import (
	"bytes"
	"io"
	"reflect"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// quick reads and writes the documents that clients and etcd send and get all the time with a faster JSON than the
// library's (BenchmarkJSON, ADR 9). What it does not read without doubt (duplicate and, if strict, unknown fields,
// invalid text, mistakes) the library reads again, so that answers to clients are the library's. What it writes is the
// same, byte by byte, where text is valid UTF-8. An object to decode into must be empty: here it is replaced, while the
// library would merge.
type quick struct {
	*json.Serializer
	creater runtime.ObjectCreater
	strict  bool
}

func newJSON(scheme *runtime.Scheme, strict bool) runtime.Serializer {
	options := json.SerializerOptions{Strict: strict, StreamingCollectionsEncoding: true}
	return &quick{
		Serializer: json.NewSerializerWithOptions(quickMeta{}, scheme, scheme, options), creater: scheme, strict: strict,
	}
}

var (
	readOptions = jsonv2.JoinOptions(
		jsonv2.MatchCaseInsensitiveNames(false), jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false),
	)
	strictOptions = jsonv2.JoinOptions(readOptions, jsonv2.RejectUnknownMembers(true))
	writeOptions  = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1())
)

// Decode implements runtime.Decoder.
func (q *quick) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if object, gvk := q.read(data, into); object != nil {
		return object, gvk, nil
	}
	object, gvk, err := q.Serializer.Decode(data, defaults, into)
	if err != nil && gvk != nil && !runtime.IsStrictDecodingError(err) {
		if object, unknown := q.creater.New(*gvk); unknown == nil {
			err = located(err, data, object)
		}
	}
	return object, gvk, err
}

// read returns nil for whatever the library must look at.
func (q *quick) read(data []byte, into runtime.Object) (runtime.Object, *schema.GroupVersionKind) {
	apiVersion, kind, ok := leadingMeta(data)
	if !ok || apiVersion == "" || kind == "" {
		return nil, nil
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, nil
	}
	gvk := gv.WithKind(kind)
	object, err := q.creater.New(gvk)
	if err != nil || into != nil && reflect.TypeOf(into) != reflect.TypeOf(object) {
		return nil, nil
	}
	options := readOptions
	if q.strict {
		options = strictOptions
	}
	if err := jsonv2.Unmarshal(data, object, options); err != nil {
		return nil, nil
	}
	if into == nil {
		return object, &gvk
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object).Elem())
	return into, &gvk
}

// Encode implements runtime.Encoder.
func (q *quick) Encode(object runtime.Object, w io.Writer) error {
	if cacheable, ok := object.(runtime.CacheableObject); ok {
		return cacheable.CacheEncode(q.Identifier(), q.write, w)
	}
	return q.write(object, w)
}

func (q *quick) write(object runtime.Object, w io.Writer) error {
	if _, ok := object.(runtime.Unstructured); ok {
		return q.Serializer.Encode(object, w)
	}
	if meta.IsListType(object) { // Written in pieces: a list may be larger than what should be in memory at once.
		return writeList(object, w)
	}
	buffer := buffers.Get().(*bytes.Buffer)
	defer release(buffer)
	if err := jsonv2.MarshalWrite(buffer, object, writeOptions); err != nil {
		return err
	}
	buffer.Write(newline)
	_, err := w.Write(buffer.Bytes()) // In one piece, so that a buffer behind the writer grows once.
	return err
}

// newline ends documents as encoders of the standard library do.
var newline = []byte("\n")

// buffers are for objects that are written. Those of unusual size are not kept.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

const maxKeptBytes = 256 << 10

// release gives a buffer back.
func release(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxKeptBytes {
		buffer.Reset()
		buffers.Put(buffer)
	}
}
