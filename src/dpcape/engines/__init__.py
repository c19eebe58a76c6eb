"""Federated-learning engines that carry frames between coordinator and sites."""
