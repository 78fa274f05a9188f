// The names that the services, stores and brokers of these tests share.
export const consumer = 'orders'
export const eventsName = 'order-events'
/** The number of records per claim of the relay: the maximum that a fault between publish and settle duplicates. */
export const batchSize = 5
