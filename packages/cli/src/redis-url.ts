/** Whether it names a Redis: one server, or a cluster. */
export function isRedisUrl(text: string): boolean {
  return /^rediss?(\+cluster)?:/i.test(text)
}
