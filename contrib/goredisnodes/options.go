package goredisnodes

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/quorumlock/go-redlock/pool"
)

// treatment is what becomes of an option of go-redis.
type treatment struct {
	use use
	why string // the reason of a refusal
}

type use int

const (
	_       use = iota
	taken       // it sets a field of pool.Config
	ignored     // it concerns go-redis's own connections, commands or replies
	refused     // an error unless it has its zero value
)

// treatments has every exported field of redis.Options, redis.FailoverOptions and
// redis.ClusterOptions, by name. Fields of one name mean the same. It also has the fields of go-redis
// v9.23, which needs a newer Go than this module does.
var treatments = map[string]treatment{
	// How a server is reached.
	"Network":       {use: taken},
	"Addr":          {use: taken},
	"Addrs":         {use: taken}, // of a Cluster
	"MasterName":    {use: taken},
	"SentinelAddrs": {use: taken},
	"Dialer":        {use: taken},
	"DialTimeout":   {use: taken},
	"TLSConfig":     {use: taken},
	"NodeAddress":   {use: ignored}, // only compared with notifications of maintenance
	"ReplicaOnly":   {refused, "but a lock needs the master"},
	"ClusterSlots":  {refused, "but a node reads the slots from the Cluster"},
	"NewClient":     {refused, "but a node makes its own connections"},

	// What a server receives.
	"Username":                     {use: taken},
	"Password":                     {use: taken},
	"SentinelUsername":             {use: taken},
	"SentinelPassword":             {use: taken},
	"CredentialsProvider":          {use: taken},
	"CredentialsProviderContext":   {use: taken},
	"StreamingCredentialsProvider": {refused, "but a node asks for credentials when it dials: use CredentialsProviderContext"},
	"DB":                           {use: taken},
	"ClientName":                   {use: taken},
	"OnConnect":                    {refused, "but a node does not call it"},
	"Limiter":                      {refused, "but a node has no limiter"},
	"Protocol":                     {use: ignored}, // nodes speak RESP2
	"DisableIdentity":              {use: ignored}, // nodes do not send CLIENT SETINFO
	"DisableIndentity":             {use: ignored},
	"IdentitySuffix":               {use: ignored},
	"MaintNotificationsConfig":     {use: ignored}, // a connection that the server ends is dialled again

	// Where go-redis sends commands that only read. A lock's commands write.
	"ReadOnly":                {use: ignored},
	"RouteByLatency":          {use: ignored},
	"RouteByLatencyTolerance": {use: ignored}, // v9.23
	"RouteRandomly":           {use: ignored},
	"UseDisconnectedReplicas": {use: ignored},
	"ShardPicker":             {use: ignored},
	"DisableRoutingPolicies":  {use: ignored},

	// Retries, redirects and timeouts, for which nodes have their own rules.
	"MaxRetries":                 {use: ignored},
	"MaxRedirects":               {use: ignored},
	"MinRetryBackoff":            {use: ignored},
	"MaxRetryBackoff":            {use: ignored},
	"DialerRetries":              {use: ignored},
	"DialerRetryTimeout":         {use: ignored},
	"DialerRetryBackoff":         {use: ignored},
	"ReadTimeout":                {use: ignored},
	"WriteTimeout":               {use: ignored},
	"ContextTimeoutEnabled":      {use: ignored},
	"FailingTimeoutSeconds":      {use: ignored},
	"ClusterStateReloadInterval": {use: ignored},

	// Pools and buffers.
	"PoolFIFO":                {use: ignored},
	"PoolSize":                {use: ignored},
	"PoolTimeout":             {use: ignored},
	"MaxConcurrentDials":      {use: ignored},
	"MinIdleConns":            {use: ignored},
	"MaxIdleConns":            {use: ignored},
	"MaxActiveConns":          {use: ignored},
	"ConnMaxIdleTime":         {use: ignored},
	"ConnMaxLifetime":         {use: ignored},
	"ConnMaxLifetimeJitter":   {use: ignored},
	"ReadBufferSize":          {use: ignored},
	"WriteBufferSize":         {use: ignored},
	"PipelineReadBufferSize":  {use: ignored},
	"PipelineWriteBufferSize": {use: ignored},
	"PipelinePoolSize":        {use: ignored},
	"AutoPipelineOptions":     {use: ignored},

	// Replies, and caches of them.
	"UnstableResp3":                          {use: ignored},
	"PushNotificationProcessor":              {use: ignored},
	"ClientSideCacheConfig":                  {use: ignored},
	"ClientSideCache":                        {use: ignored},
	"ClientSideCacheStrategy":                {use: ignored},
	"ClientSideCacheRefreshOnInvalidate":     {use: ignored}, // v9.23
	"ClientSideCacheCoalesceMisses":          {use: ignored}, // v9.23
	"ClientSideCacheInvalidationBatchWindow": {use: ignored}, // v9.23
}

// refuse returns an error that names all options that are refused. cfg says which server they are
// for. plain returns the options of a client that has only an address.
//
// An option that is not in the table is one of a newer go-redis. It is refused if a client has it
// only if the program set it. A number passes: it sizes or times go-redis's own connections, and
// go-redis computes the defaults of such options from others.
func refuse[O any](cfg pool.Config, options O, plain func() O) error {
	v := reflect.ValueOf(options)
	defaults := sync.OnceValue(func() reflect.Value { return reflect.ValueOf(plain()) })
	var found []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		t, known := treatments[f.Name]
		switch {
		case v.Field(i).IsZero():
		case t.use == refused:
			found = append(found, fmt.Sprintf("%s is set, %s", f.Name, t.why))
		case !known && f.IsExported() && !isNumber(f.Type) && defaults().Field(i).IsZero():
			found = append(found, f.Name+" is set, but this version of goredisnodes does not know it")
		}
	}
	if found == nil {
		return nil
	}
	return fmt.Errorf("the client of %v: %s", cfg, strings.Join(found, "; "))
}

func isNumber(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Complex128 }
