export type {
  MqttClient,
  MqttClientOptions,
  MqttPacket,
  MqttPublish,
  MqttPublishOptions,
  MqttPublishProperties,
  MqttServerProperties,
  MqttSubscriptions,
} from './client.ts'
export type { MqttPublisherOptions } from './publisher/mqtt-publisher.ts'
export { mqttPublisher } from './publisher/mqtt-publisher.ts'
export type { MqttSourceOptions } from './source/mqtt-source.ts'
export { mqttSource } from './source/mqtt-source.ts'
export type { ReadMessage } from './source/read-message.ts'
export { readMessage } from './source/read-message.ts'
