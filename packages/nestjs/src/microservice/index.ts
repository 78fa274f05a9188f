// Ackord as a transport of Nest microservices.

export type { AckordClientOptions } from './ackord-client.ts'
export { AckordClient } from './ackord-client.ts'
export { AckordRpcContext } from './ackord-rpc-context.ts'
export type { AckordTransportOptions } from './ackord-transport.ts'
export { AckordTransport } from './ackord-transport.ts'
export { HandlerErrorInterceptor } from './handler-error-interceptor.ts'
