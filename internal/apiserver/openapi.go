package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"hortus.dev/hortus/internal/apiserver/openapi"
	"hortus.dev/hortus/internal/version"
)

// addOpenAPI configures the two OpenAPI documents. They name types by a separate scheme, in which each type has only
// the name that clients know.
func addOpenAPI(config *genericapiserver.RecommendedConfig) {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToClientScheme(scheme))
	namer := openapinamer.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "Hortus", version.Version
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "Hortus", version.Version
}
