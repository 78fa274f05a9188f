import { attributeText, type HeaderCodec, headerCodec } from '@ackord/core/broker'

/** The CloudEvents binding for Kafka. All values are text. */
export const attributeHeaders: HeaderCodec<string> = headerCodec<string>({
  prefix: 'ce_',
  contentType: 'content-type',
  addSpecversion: true,
  encodeValue: attributeText,
  decodeValue: (value) => value,
})
