import type { DeadLetter } from '@ackord/core/broker'
import { showPayload } from './payload.ts'
import { recordLike } from './record-like.ts'
import { attributesOf, traceIdOf } from './record-view.ts'
import type { Redactor, VisibleRecord } from './redactor.ts'
import type { SealedTexts } from './sealed-texts.ts'
import type { DeadLetterDetail, DeadLetterSummary } from './types.ts'

/** Dead letters in the form of the API, after `redact`: for it a letter is a parked record, and its reason the last error. */
export class LetterView {
  readonly #redactor: Redactor
  readonly #sealed: SealedTexts

  constructor(redactor: Redactor, sealed: SealedTexts) {
    this.#redactor = redactor
    this.#sealed = sealed
  }

  summary(letter: DeadLetter): DeadLetterSummary {
    return this.#summaryOf(letter, this.#show(letter))
  }

  /** `payload`: whether the user may see it. */
  detail(letter: DeadLetter, { payload }: { readonly payload: boolean }): DeadLetterDetail {
    const shown = this.#show(letter)
    const { message } = shown
    return {
      ...this.#summaryOf(letter, shown),
      attributes: attributesOf(message?.attributes ?? {}),
      contentType: message?.dataContentType,
      payload: payload && message !== undefined ? showPayload(message.data, message.dataContentType) : undefined,
      traceId: traceIdOf(message?.attributes.traceparent),
    }
  }

  #show({ position, message, origin, reason, failedAt }: DeadLetter): VisibleRecord {
    return this.#redactor.show(recordLike(message, { id: position, destination: origin ?? '', lastError: reason, parkedAt: failedAt }))
  }

  #summaryOf({ position, message, origin, failedAt, problem }: DeadLetter, shown: VisibleRecord): DeadLetterSummary {
    const messageId = shown.message?.id
    return {
      id: message.id === undefined ? position : this.#sealed.referenceTo(message.id, messageId),
      position,
      messageId,
      type: shown.message?.type,
      origin,
      reason: shown.lastError,
      failedAt,
      size: shown.size,
      problem: problem === undefined ? undefined : this.#redactor.showError(recordLike(message), problem),
    }
  }
}
