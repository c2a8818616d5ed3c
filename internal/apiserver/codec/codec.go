// Package codec encodes and decodes our kinds: as JSON only, in one pass over a document, and with shared memory for
// content that many objects have in common.
package codec

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// jsonOnly hides protobuf, which our types do not support. Clients that prefer protobuf and also accept JSON get JSON.
type jsonOnly struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func (j jsonOnly) SupportedMediaTypes() []runtime.SerializerInfo { return j.types }

// New returns the codecs of a scheme, and the serializer for requests and responses.
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

// NewStorage returns the codec for stored objects: always JSON.
func NewStorage(scheme *runtime.Scheme, versions ...schema.GroupVersion) runtime.Codec {
	plain := newJSON(scheme, false)
	return newSharing(versioning.NewDefaultingCodecForScheme(scheme, plain, plain, schema.GroupVersions(versions),
		runtime.InternalGroupVersioner))
}
