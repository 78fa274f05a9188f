/** AMQP's reply code, where amqplib's error carries one. */
export function replyCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
