package codec

import (
	"bytes"
	"io"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// quick decodes and encodes the usual documents of clients and etcd with a faster JSON package than the library's
// (BenchmarkJSON, ADR 9). Documents that it does not accept (duplicate and, if strict, unknown fields, invalid text,
// syntax errors) are decoded again by the library, so that clients get the library's errors. Its output is the
// library's, byte by byte, if all text is valid UTF-8. An object to decode into must be empty: it is replaced, while
// the library would merge.
type quick struct {
	*json.Serializer
	creater runtime.ObjectCreater
	strict  bool
}

func newJSON(scheme *runtime.Scheme, strict bool) runtime.Serializer {
	options := json.SerializerOptions{Strict: strict, StreamingCollectionsEncoding: true}
	library := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	return &quick{Serializer: library, creater: scheme, strict: strict}
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

// read returns nil for documents that the library must decode.
func (q *quick) read(data []byte, into runtime.Object) (runtime.Object, *schema.GroupVersionKind) {
	gvk, ok := kindOf(data)
	if !ok {
		return nil, nil
	}
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

// kindOf reads apiVersion and kind if they are the first fields, as all encoders write them.
func kindOf(data []byte) (schema.GroupVersionKind, bool) {
	document := jsontext.NewDecoder(bytes.NewBuffer(data))
	if begin, err := document.ReadToken(); err != nil || begin.Kind() != jsontext.KindBeginObject {
		return schema.GroupVersionKind{}, false
	}
	members := map[string]string{}
	for range 2 {
		name, err := document.ReadToken()
		if err != nil || name.Kind() != jsontext.KindString {
			return schema.GroupVersionKind{}, false
		}
		key := name.String()
		value, err := document.ReadToken()
		if err != nil || value.Kind() != jsontext.KindString {
			return schema.GroupVersionKind{}, false
		}
		members[key] = value.String()
	}
	gvk := schema.FromAPIVersionAndKind(members["apiVersion"], members["kind"])
	return gvk, gvk.Version != "" && gvk.Kind != ""
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
	if meta.IsListType(object) { // A list may be too large for a buffer.
		err := jsonv2.MarshalWrite(w, object, writeOptions)
		if err == nil {
			_, err = io.WriteString(w, "\n") // As the standard library's encoders do.
		}
		return err
	}
	data, err := jsonv2.Marshal(object, writeOptions)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n')) // In one call, so that a buffer behind the writer grows only once.
	return err
}
