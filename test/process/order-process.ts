import { defineEvent } from '@ackord/core'
import { defineProcess, type ProcessDefinition, type ProcessStep, when } from '@ackord/outbox'

export const orderPlaced = defineEvent<{ readonly orderId: string; readonly total: number }>('order.placed')
export const requestPayment = defineEvent<{ readonly orderId: string; readonly amount: number }>('payment.request')
export const paymentReceived = defineEvent<{ readonly orderId: string; readonly paymentId: string }>('payment.received')
export const paymentDeclined = defineEvent<{ readonly orderId: string }>('payment.declined')
export const refundPayment = defineEvent<{ readonly paymentId: string }>('payment.refund')
export const shipOrder = defineEvent<{ readonly orderId: string }>('shipping.request')
export const orderShipped = defineEvent<{ readonly orderId: string }>('order.shipped')
export const shippingFailed = defineEvent<{ readonly orderId: string }>('shipping.failed')
export const cancelOrder = defineEvent<{ readonly orderId: string; readonly reason: string }>('order.cancel')
export const confirmOrder = defineEvent<{ readonly orderId: string }>('order.confirm')

interface Order {
  readonly total: number
  readonly paymentId?: string
}

function cancel(step: ProcessStep, reason: string): void {
  step.send(cancelOrder({ orderId: step.id, reason }))
  step.complete()
}

/** The process of the guide, with the queue, and the time limit of the payment by the total, as parameters. */
export function createOrderProcess(destination: string, paymentTimeout: (total: number) => number): ProcessDefinition {
  return defineProcess<Order>({
    name: 'order',
    state: () => ({ total: 0 }),
    correlate: ({ data }) => (data as { orderId: string }).orderId,
    destination,
    source: '/order-process',

    startedBy: [
      when(orderPlaced, (_state, { data }, step) => {
        step.send(requestPayment({ orderId: step.id, amount: data.total }))
        step.timeout('payment', paymentTimeout(data.total))
        return { total: data.total }
      }),
    ],
    on: [
      when(paymentReceived, (state, { data }, step) => {
        step.cancelTimeout('payment')
        step.send(shipOrder({ orderId: step.id }))
        return { ...state, paymentId: data.paymentId }
      }),
      when(paymentDeclined, (_state, _message, step) => cancel(step, 'payment declined')),
      when(orderShipped, (_state, _message, step) => {
        step.send(confirmOrder({ orderId: step.id }))
        step.complete()
      }),
      // Compensation: what was done is undone by further commands.
      when(shippingFailed, ({ paymentId }, _message, step) => {
        if (paymentId !== undefined) step.send(refundPayment({ paymentId }))
        cancel(step, 'shipping failed')
      }),
    ],
    timeouts: {
      payment: (_state, _message, step) => cancel(step, 'no payment'),
    },
  })
}
