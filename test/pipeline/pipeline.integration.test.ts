import { httpCarrier } from './http-carrier.ts'
import { kafkaCarrier } from './kafka-carrier.ts'
import { mqttCarrier } from './mqtt-carrier.ts'
import { natsCarrier } from './nats-carrier.ts'
import { rabbitmqCarrier } from './rabbitmq-carrier.ts'
import { redisStreamsCarrier } from './redis-streams-carrier.ts'
import { registerPipelines } from './register-pipelines.ts'
import { snsCarrier } from './sns-carrier.ts'
import { sqsCarrier } from './sqs-carrier.ts'

registerPipelines([rabbitmqCarrier, natsCarrier, redisStreamsCarrier, kafkaCarrier, httpCarrier, sqsCarrier, snsCarrier, mqttCarrier])
