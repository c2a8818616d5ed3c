// Package codec reads and writes our kinds: JSON only, without parsing a document twice, and with little memory for
// what is the same in many objects.
package codec

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// jsonOnly hides protobuf, which our types do not speak. Clients that prefer it and also accept JSON get JSON.
type jsonOnly struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func (j jsonOnly) SupportedMediaTypes() []runtime.SerializerInfo { return j.types }

// New returns the codecs of a scheme, and the serializer for requests.
func New(scheme *runtime.Scheme) (serializer.CodecFactory, runtime.NegotiatedSerializer) {
	codecs := serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON())
	types := slices.DeleteFunc(slices.Clone(codecs.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
	for i := range types {
		if types[i].MediaType == runtime.ContentTypeJSON {
			types[i].Serializer, types[i].StrictSerializer = newJSON(scheme, false), newJSON(scheme, true)
			stream := *types[i].StreamSerializer
			stream.Serializer = types[i].Serializer
			types[i].StreamSerializer = &stream
		}
	}
	return codecs, jsonOnly{codecs, types}
}

// NewStorage returns what objects are stored with: always JSON.
func NewStorage(scheme *runtime.Scheme, versions ...schema.GroupVersion) runtime.Codec {
	plain := newJSON(scheme, false)
	return newSharing(versioning.NewDefaultingCodecForScheme(scheme, plain, plain, schema.GroupVersions(versions),
		runtime.InternalGroupVersioner))
}

// quickMeta finds apiVersion and kind where all encoders write them, at the beginning, instead of parsing whole
// documents for them. That was 5% of the CPU time of a patch of a Shoot.
type quickMeta struct{ json.SimpleMetaFactory }

// Interpret implements json.MetaFactory.
func (m quickMeta) Interpret(data []byte) (*schema.GroupVersionKind, error) {
	apiVersion, kind, ok := leadingMeta(data)
	if !ok {
		return m.SimpleMetaFactory.Interpret(data)
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	return &schema.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: kind}, nil
}

// leadingMeta reads the first two members of an object if they are apiVersion and kind, in any order. What comes behind
// them is checked when the document is decoded.
func leadingMeta(data []byte) (apiVersion, kind string, ok bool) {
	rest, found := bytes.CutPrefix(trim(data), []byte("{"))
	if !found {
		return "", "", false
	}
	members := map[string]string{}
	for range 2 {
		var key, value string
		if key, rest, ok = simpleString(rest); !ok {
			return "", "", false
		}
		if rest, found = bytes.CutPrefix(trim(rest), []byte(":")); !found {
			return "", "", false
		}
		if value, rest, ok = simpleString(rest); !ok {
			return "", "", false
		}
		if rest = trim(rest); len(rest) == 0 || rest[0] != ',' && rest[0] != '}' {
			return "", "", false
		}
		rest = rest[1:]
		members[key] = value
	}
	apiVersion, hasVersion := members["apiVersion"]
	kind, hasKind := members["kind"]
	return apiVersion, kind, hasVersion && hasKind
}

// simpleString reads a JSON string without escapes and with ASCII only.
func simpleString(data []byte) (value string, rest []byte, ok bool) {
	data, found := bytes.CutPrefix(trim(data), []byte(`"`))
	if !found {
		return "", nil, false
	}
	end := bytes.IndexByte(data, '"')
	if end < 0 || slices.ContainsFunc(data[:end], func(b byte) bool { return b < ' ' || b > '~' || b == '\\' }) {
		return "", nil, false
	}
	return string(data[:end]), data[end+1:], true
}

func trim(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }
