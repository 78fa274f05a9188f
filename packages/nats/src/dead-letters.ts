import { AckordError, Message } from '@ackord/core'
import { type DeadLetterQueue, type DeadLetters, type DeadLettersOptions, deadLetterPort, type StoredLetter } from '@ackord/core/broker'
import { checkName, rejectUnknownOptions } from '@ackord/core/internal'
import type { NatsConnection, NatsHeaders } from './client.ts'
import { natsPublisher } from './publisher/nats-publisher.ts'
import { type NatsStreamMessage, readMessage } from './source/read-message.ts'

/** The part of a `JetStreamManager` of `@nats-io/jetstream` that is used. */
export interface NatsStreamManager {
  readonly streams: NatsStreams
}

export interface NatsStreams {
  /** The stream that captures a subject. */
  find(subject: string): Promise<string>
  info(stream: string, options?: { subjects_filter: string }): Promise<{ readonly state: NatsStreamState }>
  getMessage(stream: string, query: { seq: number; next_by_subj: string }): Promise<NatsStoredMessage | null>
  deleteMessage(stream: string, sequence: number, erase: boolean): Promise<unknown>
}

export interface NatsStreamState {
  readonly first_seq: number
  readonly last_seq: number
  readonly subjects?: Readonly<Record<string, number>> | undefined
}

/** A message as it is stored. */
export interface NatsStoredMessage {
  readonly seq: number
  readonly subject: string
  readonly data: Uint8Array
  readonly header: NatsHeaders
  readonly time: Date
}

/**
 * The dead letters of a subject or a stream, for the dashboard. `manager` is `await jetstreamManager(connection)`. Letters are read and deleted by their sequence: that needs no
 * consumer, and works with every retention policy.
 */
export function natsDeadLetters(
  connection: NatsConnection,
  manager: NatsStreamManager,
  from: string,
  options: Pick<DeadLettersOptions, 'logger'> = {},
): DeadLetters {
  const { logger, ...unknown } = options
  rejectUnknownOptions('natsDeadLetters()', unknown)
  checkName('from', from)
  return deadLetterPort({ open: () => openStream(connection, manager, from), logger })
}

async function openStream(connection: NatsConnection, { streams }: NatsStreamManager, from: string): Promise<DeadLetterQueue> {
  const { stream, subject } = await locate(streams, from)
  const { state } = await streams.info(stream, { subjects_filter: subject })
  const count = Object.values(state.subjects ?? {}).reduce((sum, each) => sum + each, 0)
  // The destination may still remember the id of the message: as a duplicate it would be confirmed and not stored.
  const publisher = natsPublisher(connection, { deduplicate: false })

  return {
    count,
    publisher,
    undeletable: 0,
    async *letters(signal) {
      let next = state.first_seq
      while (next <= state.last_seq && !signal.aborted) {
        // The first message of the subject at this sequence or after it.
        const request = { seq: next, next_by_subj: subject }
        const stored = await streams.getMessage(stream, request)
        if (stored === null || stored.seq > state.last_seq) return
        yield letterOf(stream, stored)
        next = stored.seq + 1
      }
    },
    async remove(letters) {
      await Promise.all(letters.map(({ position }) => deleteMessage(streams, stream, Number(position))))
    },
    async [Symbol.asyncDispose]() {
      await publisher[Symbol.asyncDispose]()
    },
  }
}

/** A subject, as in `deadLetter.destination`, or the name of a stream. */
async function locate(streams: NatsStreams, from: string): Promise<{ readonly stream: string; readonly subject: string }> {
  try {
    return { stream: await streams.find(from), subject: from }
  } catch {
    try {
      await streams.info(from)
      return { stream: from, subject: '>' }
    } catch (cause) {
      throw new AckordError('ACKORD_SOURCE_FAILED', `No stream captures the subject '${from}', and no stream has this name.`, { cause })
    }
  }
}

function letterOf(stream: string, { seq, subject, data, header, time }: NatsStoredMessage): StoredLetter {
  const position = String(seq)
  const native: NatsStreamMessage = { stream, sequence: seq, subject, data, headers: header, time, deliveryCount: 1 }
  try {
    const { data: content, attributes } = readMessage(native)
    return { position, message: new Message(content, attributes) }
  } catch (error) {
    return { position, message: new Message(data), problem: String(error) }
  }
}

const noMessageFound = 10_037
const sequenceNotFound = 10_043

/** Not erased: overwriting the bytes on disk would take long, and the caller did not ask for it. */
async function deleteMessage(streams: NatsStreams, stream: string, sequence: number): Promise<void> {
  try {
    await streams.deleteMessage(stream, sequence, false)
  } catch (error) {
    // Not `instanceof`: an application may have two copies of the client.
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== noMessageFound && code !== sequenceNotFound) throw error
  }
}
