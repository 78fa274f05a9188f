import { InvalidOptionError } from '@ackord/core'

// MQTT's limit for a string, in bytes.
export const maxStringLength = 65_535

// Characters that MQTT forbids or allows brokers to refuse, and Mosquitto does: control characters, noncharacters, halves of surrogate pairs.
const refusedCharacters = /[\p{Cc}\p{Cs}\uFDD0-\uFDEF\uFFFE\uFFFF]/u

/** Checks a topic that can be published to: without wildcards. */
export function checkTopic(option: string, topic: unknown): string {
  if (isText(topic) && !/[+#]/.test(topic)) return topic
  throw new InvalidOptionError(
    option,
    `must be a topic such as 'orders/placed', without wildcards and control characters; it is ${JSON.stringify(topic)}.`,
  )
}

/** Checks a topic filter: `+` stands for one level, `#` at the end for any number. */
export function checkFilter(option: string, filter: unknown): string {
  if (isText(filter) && !filter.startsWith('$share/') && filter.split('/').every(isFilterLevel)) return filter
  throw new InvalidOptionError(
    option,
    `must be a topic filter such as 'orders/#' or 'orders/+/placed', without $share; it is ${JSON.stringify(filter)}.`,
  )
}

/** Checks the name of a group, which is one level of a shared subscription. */
export function checkGroup(option: string, group: unknown): string {
  if (isText(group) && !/[+#/]/.test(group)) return group
  throw new InvalidOptionError(option, `must be a name without slashes, wildcards and control characters; it is ${JSON.stringify(group)}.`)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= maxStringLength && !refusedCharacters.test(value)
}

function isFilterLevel(level: string, index: number, levels: readonly string[]): boolean {
  if (level === '#') return index === levels.length - 1
  return level === '+' || !/[+#]/.test(level)
}

/** Whether a filter matches a topic. */
export function matchesFilter(filter: string, topic: string): boolean {
  // Topics such as $SYS/broker are not matched by a wildcard at the start.
  if (topic.startsWith('$') && /^[+#]/.test(filter)) return false
  return overlap(filter.split('/'), topic.split('/'))
}

/** Whether there can be a topic that both filters match. */
export function filtersOverlap(one: string, other: string): boolean {
  return overlap(one.split('/'), other.split('/'))
}

function overlap(one: readonly string[], other: readonly string[]): boolean {
  for (let index = 0; ; index += 1) {
    const [left, right] = [one[index], other[index]]
    // `orders/#` also matches `orders`.
    if (left === '#' || right === '#') return true
    if (left === undefined || right === undefined) return left === right
    if (left !== right && left !== '+' && right !== '+') return false
  }
}
