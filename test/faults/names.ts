// What services, stores and brokers of these tests agree on.
export const consumer = 'orders'
export const eventsName = 'order-events'
/** How many records one claim of the relay takes: what a fault between publish and settle doubles at most. */
export const batchSize = 5
