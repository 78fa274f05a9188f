import { Message } from '@ackord/core'
import { type NatsConnection, type NatsStreamMessage, natsPublisher, readMessage } from '@ackord/nats'
import { JetStreamApiError, type JetStreamManager, type StoredMsg } from '@nats-io/jetstream'
import { CommandError, exitCode } from '../output/errors.ts'
import type { DeadLetterQueue, StoredLetter } from './dead-letter-queue.ts'

/** The letters are read and deleted by their sequence: that needs no consumer, and works with every retention policy. */
export async function openNatsLetters(
  connection: NatsConnection,
  { streams }: Pick<JetStreamManager, 'streams'>,
  from: string,
): Promise<DeadLetterQueue> {
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

type Streams = JetStreamManager['streams']

/** A subject, as in `deadLetter.destination`, or the name of a stream. */
async function locate(streams: Streams, from: string): Promise<{ readonly stream: string; readonly subject: string }> {
  try {
    return { stream: await streams.find(from), subject: from }
  } catch {
    try {
      await streams.info(from)
      return { stream: from, subject: '>' }
    } catch (cause) {
      throw new CommandError(`No stream captures the subject '${from}', and no stream has this name.`, {
        exitCode: exitCode.failed,
        hint: 'Check --from, or --dead-letters of the dashboard.',
        cause,
      })
    }
  }
}

function letterOf(stream: string, { seq, subject, data, header, time }: StoredMsg): StoredLetter {
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

/** Not erased: overwriting the bytes on disk would take long, and nobody asked for it. */
async function deleteMessage(streams: Streams, stream: string, sequence: number): Promise<void> {
  try {
    await streams.deleteMessage(stream, sequence, false)
  } catch (error) {
    const isGone = error instanceof JetStreamApiError && (error.code === noMessageFound || error.code === sequenceNotFound)
    if (!isGone) throw error
  }
}
