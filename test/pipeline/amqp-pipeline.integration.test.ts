import { amqpCarrier } from './amqp-carrier.ts'
import { registerPipelines } from './register-pipelines.ts'

// RabbitMQ 4 must be downloaded, so that only `make test-matrix` and `make proof` run this.
registerPipelines([amqpCarrier])
